"""Bounds: counts -> interval, each with its guarantee. No torch here."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from numbers import Real

from sparsecert.bounds.interval import Bound, Interval
from sparsecert.bounds.one_sided import one_sided
from sparsecert.bounds.pairwise import pairwise, predicted_by_pairs
from sparsecert.bounds.prediction import predicted
from sparsecert.bounds.two_sided import two_sided
from sparsecert.errors import InputError
from sparsecert.schemes import Scheme

__all__ = [
    "Bound",
    "Interval",
    "corrected_alpha",
    "one_sided",
    "pairwise",
    "predicted",
    "predicted_by_pairs",
    "two_sided",
]

DIGITS = 30


def corrected_alpha(alpha: float | Fraction, scheme: Scheme, draws: int) -> Fraction:
    """alpha less the bias of the mask generator.

    The joint law of `draws` independent masks is within draws * nonuniformity (total variation) of the ideal one, so an
    event of ideal probability at most alpha - draws * nonuniformity has probability at most alpha. The result is
    truncated to 30 binary digits, which only lowers it: schemes with different k then share one level, and its cached
    bounds.
    """
    if not isinstance(alpha, Real) or not 0 < alpha < 1:
        raise InputError(f"alpha must be between 0 and 1, both excluded, got {alpha!r}")
    left = _less_bias(alpha if isinstance(alpha, Fraction) else float(alpha), scheme.nonuniformity, draws)
    if left <= 0:
        raise InputError(
            f"alpha = {float(alpha)} is too small for {draws} draws of {scheme}; use fewer or a larger alpha"
        )
    return left


@lru_cache(maxsize=1 << 10)
def _less_bias(alpha: float | Fraction, nonuniformity: Fraction, draws: int) -> Fraction:
    left = Fraction(alpha) - draws * nonuniformity
    step = Fraction(2) ** (left.numerator.bit_length() - left.denominator.bit_length() - DIGITS)
    return left // step * step
