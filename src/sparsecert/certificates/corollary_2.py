"""Corollary 2 of Levine & Feizi (2020): a robust lead."""

from __future__ import annotations

from fractions import Fraction

from sparsecert.bounds import two_sided
from sparsecert.bounds.interval import Interval
from sparsecert.certificates.certificate import Method, largest_rho
from sparsecert.counts import Tally
from sparsecert.registry import CERTIFICATES
from sparsecert.schemes import Scheme


def corollary_2(interval: Interval, scheme: Scheme) -> int | None:
    """If p_lower(A) - delta(rho) > p_upper + delta(rho) then g(x') = A whenever x' differs in at most rho units.

    By Theorem 1 twice, p_j(x') <= p_j(x) + delta <= p_upper + delta < p_lower - delta <= p_A(x) - delta <= p_A(x') for
    every rival j. With p_upper = 1 - p_lower this is Corollary 1; a smaller p_upper can only enlarge the radius.
    """
    return largest_rho(scheme, (Fraction(interval.p_lower) - Fraction(interval.p_upper)) / 2)


CERTIFICATES.register("two-sided")(Method("two-sided", two_sided, corollary_2, "corollary-2", rival=Tally.rival))
