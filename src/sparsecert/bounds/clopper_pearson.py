"""The exact Clopper-Pearson interval for a proportion, rounded conservatively.

Clopper & Pearson, "The use of confidence or fiducial limits illustrated in the case of the binomial", Biometrika, 1934.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from sparsecert.bounds.binomial import proved_in_floats, tail_at_most
from sparsecert.errors import InputError

STEPS_DOWN = tuple(1 - 2.0**-bits for bits in (44, 40, 36, 32, 28))  # scipy errs by more with more trials
FEW_TRIALS = 1 << 17  # up to which a proof in integers takes milliseconds


@lru_cache(maxsize=1 << 16)
def lower_bound(successes: int, trials: int, alpha: Fraction) -> float:
    """A float p_lower with P(p_lower > p) <= alpha for every true p: never above the exact Clopper-Pearson bound.

    The exact bound is the p at which P(Binomial(trials, p) >= successes) = alpha, or 0 without successes. scipy's value
    is only a proposal, lowered step by step until `tail_at_most` (with many trials, first its float version) proves it;
    without a proposal the bound is found by bisection. The tail grows with p.
    """
    if not 0 <= successes <= trials or trials < 1:
        raise InputError(f"successes must be between 0 and trials, got {successes} of {trials}")
    if not 0 < alpha < 1:
        raise InputError(f"alpha must be between 0 and 1, got {float(alpha)}")
    from scipy.special import betaincinv

    value = float(betaincinv(successes, trials - successes + 1, float(alpha)))
    for proof in (tail_at_most,) if trials <= FEW_TRIALS else (proved_in_floats, tail_at_most):
        for step in STEPS_DOWN:
            if value > 0 and proof(successes, trials, Fraction(value * step), alpha):
                return value * step
    return _bisect(successes, trials, alpha)


def upper_bound(successes: int, trials: int, alpha: Fraction) -> float:
    """A float p_upper with P(p_upper < p) <= alpha for every true p: never below the exact Clopper-Pearson bound."""
    return complement(lower_bound(trials - successes, trials, alpha))


def complement(p_lower: float) -> float:
    """1 - p_lower, rounded up: an upper bound on the probability of everything else."""
    nearest = 1 - p_lower
    return nearest if Fraction(nearest) >= 1 - Fraction(p_lower) else math.nextafter(nearest, math.inf)


def _bisect(successes: int, trials: int, alpha: Fraction) -> float:
    """The largest float that `tail_at_most` proves, to within 2**-60, without a proposal."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        proved = tail_at_most(successes, trials, Fraction(middle), alpha)
        low, high = (middle, high) if proved else (low, middle)
    return low
