"""Corollary 1 of Levine & Feizi (2020): a robust majority."""

from __future__ import annotations

from fractions import Fraction

from sparsecert.bounds import one_sided
from sparsecert.bounds.interval import Interval
from sparsecert.certificates.certificate import Method, largest_rho
from sparsecert.registry import CERTIFICATES
from sparsecert.schemes import Scheme


def corollary_1(interval: Interval, scheme: Scheme) -> int | None:
    """If p_lower(A) - delta(rho) > 1/2 then g(x') = A whenever x' differs from x in at most rho units.

    By Theorem 1, p_A(x') >= p_A(x) - delta > 1/2: A keeps a majority of all masks, so no class can overtake it.
    """
    return largest_rho(scheme, Fraction(interval.p_lower) - Fraction(1, 2))


CERTIFICATES.register("one-sided")(
    Method(
        "one-sided", one_sided, corollary_1, "corollary-1", rival=lambda votes, label: votes.total - votes.votes[label]
    )
)
