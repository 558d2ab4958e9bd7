"""Corollary 1 of Levine & Feizi (2020): a robust majority."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sparsecert.bounds import one_sided
from sparsecert.bounds.interval import Interval
from sparsecert.certificates.certificate import Method, largest_rho
from sparsecert.counts import Counts, Int64
from sparsecert.registry import CERTIFICATES
from sparsecert.schemes import Scheme


def corollary_1(interval: Interval, scheme: Scheme) -> int | None:
    """If p_lower(A) - delta(rho) > 1/2 then g(x') = A whenever x' differs from x in at most rho units.

    By Theorem 1, p_A(x') >= p_A(x) - delta > 1/2: A keeps a majority of all masks, so no class can overtake it.
    """
    return largest_rho(scheme, Fraction(interval.p_lower) - Fraction(1, 2))


def with_all_others(votes: Counts, labels: Int64, rivals: Int64 | None = None) -> tuple[Int64, Int64]:
    """Votes for the label, and all others."""
    own = votes.votes[np.arange(len(votes)), labels]
    return own, votes.total - own


CERTIFICATES.register("one-sided")(Method("one-sided", one_sided, corollary_1, "corollary-1", compared=with_all_others))
