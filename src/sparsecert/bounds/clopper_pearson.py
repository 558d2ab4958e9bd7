"""Clopper & Pearson's exact interval for a proportion, rounded against ourselves.

Clopper & Pearson, "The use of confidence or fiducial limits illustrated in the case of the binomial", Biometrika, 1934.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from sparsecert.bounds.binomial import tail_at_most
from sparsecert.errors import InputError

STEP_DOWN = 1 - 2.0**-44  # far more than scipy's rounding, far less than one vote


@lru_cache(maxsize=1 << 16)
def lower_bound(successes: int, trials: int, alpha: Fraction) -> float:
    """A float p_lower with P(p_lower > p) <= alpha for every true p: never above the exact Clopper-Pearson bound.

    The exact bound is the p at which P(Binomial(trials, p) >= successes) = alpha, and 0 at no successes. scipy's value,
    stepped down, is only a proposal: what is returned has been proved by `tail_at_most`, whose tail grows with p, or is
    0, as at no successes, where scipy has nothing to propose.
    """
    if not 0 <= successes <= trials or trials < 1:
        raise InputError(f"successes must be between 0 and trials, got {successes} of {trials}")
    if not 0 < alpha < 1:
        raise InputError(f"alpha must be between 0 and 1, got {float(alpha)}")
    from scipy.special import betaincinv

    proposal = float(betaincinv(successes, trials - successes + 1, float(alpha))) * STEP_DOWN
    if proposal > 0 and tail_at_most(successes, trials, Fraction(proposal), alpha):
        return proposal
    return _bisected(successes, trials, alpha)


def upper_bound(successes: int, trials: int, alpha: Fraction) -> float:
    """A float p_upper with P(p_upper < p) <= alpha for every true p: never below the exact Clopper-Pearson bound."""
    return complement(lower_bound(trials - successes, trials, alpha))


def complement(p_lower: float) -> float:
    """1 - p_lower, rounded up: the upper bound on everything else."""
    nearest = 1 - p_lower
    return nearest if Fraction(nearest) >= 1 - Fraction(p_lower) else math.nextafter(nearest, math.inf)


def _bisected(successes: int, trials: int, alpha: Fraction) -> float:
    """The largest float that `tail_at_most` proves, to within 2**-60 of the interval: no proposal needed."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        proved = tail_at_most(successes, trials, Fraction(middle), alpha)
        low, high = (middle, high) if proved else (low, middle)
    return low
