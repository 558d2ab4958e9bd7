"""Bounds on binomial tails in integers, or in doubles with bounded rounding error: no library is trusted."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate

import numpy as np

SCALE = 1 << 192  # the term at `successes` is 1 in units of 1 / SCALE
MOST_TERMS, MOST_TRIALS, LEAST = 1 << 22, 1 << 50, Fraction(1, 1 << 900)  # limits of the float version
NEGLIGIBLE = 64  # the upper sum stops once the remainder is at most 2**-NEGLIGIBLE of it


def tail_at_most(successes: int, trials: int, p: Fraction, level: Fraction) -> bool:
    """Proves P(Binomial(trials, p) >= successes) <= level; False means not proved (it may still hold, by 2**-60 or so).

    With w(i) = C(trials, i) p^i (1-p)^(trials-i) / w(successes), the tail is the sum of w from `successes` up over the
    sum of all w. The numerator is rounded up, its far end bounded by a geometric series (the ratio w(i+1)/w(i) falls
    with i); the denominator is rounded down. Only ratios of neighbours are needed, so no factorial, power or logarithm
    is ever evaluated; near successes / trials = p the work grows with sqrt(trials).
    """
    if level <= 0:
        return False
    if successes <= 0 or p >= 1:
        return level >= 1
    if successes > trials or p <= 0:
        return True
    if proved_in_floats(successes, trials, p, level):
        return True
    odds, against = p.numerator, p.denominator - p.numerator
    upper = _upper_sum_from(successes, trials, odds, against)
    # tail = U / (U + L) grows with U and falls with L, so the rounded values bound it from above: U <= level * (U + L)
    needed = -(-upper * (level.denominator - level.numerator) // level.numerator)
    return _lower_sum_reaches(needed, successes, trials, odds, against)


def proved_in_floats(successes: int, trials: int, p: Fraction, level: Fraction) -> bool:
    """`tail_at_most` in IEEE doubles, for successes from 1 to trials: far faster, but False if rounding might decide.

    It uses only sums, products and quotients, each within a factor 1 +- 2**-53 of the exact one. A ratio of
    neighbours takes at most six of them, so the k-th term is within 1 +- 7 k 2**-53 and the sums of at most `reach`
    positive terms are within 1 +- `slack`, with room to spare. Omitting terms only lowers the denominator; the far end
    of the numerator is bounded by a geometric series. Counts are exact below 2**53; probabilities so small that
    doubles lose digits are left to the integers; an overflowing denominator is at least the largest double.
    """
    if trials >= MOST_TRIALS or min(p, 1 - p, level, 1 - level) < LEAST:
        return False
    reach = int(9 * math.sqrt(trials * p * (1 - p))) + 64
    if reach > MOST_TERMS:
        return False
    odds, share, remainder = float(p) / float(1 - p), float(level), float(1 - level)
    up = successes + np.arange(min(reach, trials - successes), dtype=np.float64)
    down = successes - np.arange(min(reach, successes), dtype=np.float64)
    with np.errstate(over="ignore", under="ignore"):
        above = np.cumprod(np.append(1.0, (trials - up) / (up + 1) * odds))
        below = np.cumprod(down / (trials - down + 1) / odds)
        upper, lower = float(above.sum()), min(float(below.sum()), sys.float_info.max)
    rest = _far_end(float(above[-1]), min(successes + reach, trials), trials, odds)
    slack = 32 * (reach + 16) * 2.0**-53
    return (upper + rest) * remainder * (1 + slack) <= share * lower * (1 - slack)


def _far_end(last: float, i: int, trials: int, odds: float) -> float:
    """At least the sum of all terms after the i-th, which is `last`: a geometric series, its sum rounded up.

    Infinite if the series does not decrease, or so slowly that 1 - ratio is not within a factor 1 +- 2**-30.
    """
    ratio = (trials - i) / (i + 1) * odds
    return math.inf if ratio > 1 - 2.0**-20 else last * ratio / (1 - ratio) * 1.001


def _upper_sum_from(successes: int, trials: int, odds: int, against: int) -> int:
    """At least SCALE times the sum of w(i), i >= successes."""
    term = total = SCALE
    for i in range(successes, trials):
        up, down = (trials - i) * odds, (i + 1) * against
        if up < down:
            rest = -(-term * up // (down - up))  # term * r / (1 - r), which the remaining terms cannot exceed
            if rest <= total >> NEGLIGIBLE:
                return total + rest
        term = -(-term * up // down)
        total += term
    return total


def _lower_sum_reaches(needed: int, successes: int, trials: int, odds: int, against: int) -> bool:
    """Proves that SCALE times the sum of w(i), i < successes, is at least `needed`; stops as soon as it is."""
    return any(total >= needed for total in accumulate(_terms_below(successes, trials, odds, against)))


def _terms_below(successes: int, trials: int, odds: int, against: int) -> Iterator[int]:
    """At most SCALE times w(i) for i = successes - 1, ..., 0, until they round down to 0."""
    term = SCALE
    for fewer in range(successes):
        term = term * (successes - fewer) * against // ((trials - successes + fewer + 1) * odds)
        yield term
        if not term:
            return
