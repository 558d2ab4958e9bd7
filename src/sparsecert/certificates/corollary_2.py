"""Corollary 2 of Levine & Feizi (2020): a robust lead."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sparsecert.bounds import two_sided
from sparsecert.bounds.interval import Interval
from sparsecert.certificates.certificate import Method, largest_rho
from sparsecert.counts import Counts, Int64
from sparsecert.registry import CERTIFICATES
from sparsecert.schemes import Scheme


def corollary_2(interval: Interval, scheme: Scheme) -> int | None:
    """If p_lower(A) - delta(rho) > p_upper + delta(rho) then g(x') = A whenever x' differs in at most rho units.

    By Theorem 1 twice, p_j(x') <= p_j(x) + delta <= p_upper + delta < p_lower - delta <= p_A(x) - delta <= p_A(x') for
    every rival j. With p_upper = 1 - p_lower this is Corollary 1; a smaller p_upper can only enlarge the radius.
    """
    return largest_rho(scheme, (Fraction(interval.p_lower) - Fraction(interval.p_upper)) / 2)


def with_runner_up(votes: Counts, labels: Int64, rivals: Int64 | None = None) -> tuple[Int64, Int64]:
    """Votes for the label, and for the largest rival plus all invalid ones; or for the rival that is named."""
    each = np.arange(len(votes))
    own = votes.votes[each, labels]
    if rivals is not None:
        return own, votes.votes[each, rivals]
    others = votes.votes.copy()
    others[each, labels] = -1
    return own, others.max(axis=1) + votes.invalid


CERTIFICATES.register("two-sided")(Method("two-sided", two_sided, corollary_2, "corollary-2", compared=with_runner_up))
