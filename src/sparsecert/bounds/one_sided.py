"""A lower bound on the leader: what Corollary 1 needs."""

from __future__ import annotations

from fractions import Fraction

from sparsecert.bounds.clopper_pearson import complement, lower_bound
from sparsecert.bounds.interval import Interval
from sparsecert.counts import Tally


def one_sided(selection: Tally, estimation: Tally, alpha: Fraction) -> Interval:
    """p_A >= p_lower with probability at least 1 - alpha; every other class then has at most 1 - p_lower.

    A is the leader of the selection votes, which are then discarded: A is fixed before the estimation masks are
    drawn, so its count among them is binomial and Clopper-Pearson applies (Cohen, Rosenfeld & Kolter, 2019). An invalid
    vote is not a vote for A.
    """
    label = selection.leader()
    p_lower = lower_bound(estimation.votes[label], estimation.total, alpha)
    return Interval(label, p_lower, complement(p_lower))
