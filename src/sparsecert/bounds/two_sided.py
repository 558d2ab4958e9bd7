"""A lower bound on the leader and an upper bound on all rivals, without a union bound: what Corollary 2 needs."""

from __future__ import annotations

from fractions import Fraction

from sparsecert.bounds.clopper_pearson import lower_bound, upper_bound
from sparsecert.bounds.interval import Interval
from sparsecert.counts import Tally


def two_sided(selection: Tally, estimation: Tally, alpha: Fraction) -> Interval:
    """p_A >= p_lower and p_j <= p_upper for all j != A, together, with probability at least 1 - alpha.

    Half of alpha goes to each side, for any number of classes. A is the leader of the selection votes, independent of
    the estimation masks. Let B = argmax_{j != A} p_j be the true runner-up: unknown, but one fixed class, not a choice
    made by the data. So UCB(n_B) >= p_B fails with probability at most alpha / 2. The Clopper-Pearson bound grows with
    the count, and n_B is at most the largest rival count, so UCB(max_{j != A} n_j) >= UCB(n_B) >= p_B >= p_j for all j.
    Invalid votes are added to the rival's: n_B is at most that whatever class they are taken to mean.
    The rival and A share the n votes, so p_upper <= UCB(n - n_A) = 1 - p_lower: the radius is never below that of
    Corollary 1 at alpha / 2.
    """
    label = selection.leader()
    p_lower = lower_bound(estimation.votes[label], estimation.total, alpha / 2)
    return Interval(label, p_lower, upper_bound(estimation.rival(label), estimation.total, alpha / 2))
