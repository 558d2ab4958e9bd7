"""Binomial tails, bounded by exact integer arithmetic: no library's rounding is trusted with a guarantee."""

from __future__ import annotations

from fractions import Fraction

SCALE = 1 << 192  # the term at `successes` is 1 in units of 1 / SCALE
NEGLIGIBLE = 64  # stop once what remains is below 2**-NEGLIGIBLE of what is there


def tail_at_most(successes: int, trials: int, p: Fraction, level: Fraction) -> bool:
    """Proves P(Binomial(trials, p) >= successes) <= level; False means not proved (it may still hold, by 2**-60 or so).

    With w(i) = C(trials, i) p^i (1-p)^(trials-i) / w(successes), the tail is the sum of w from `successes` up over the
    sum of all w. The numerator is rounded up, its far end bounded by a geometric series (the ratio w(i+1)/w(i) falls
    with i); the denominator is rounded down, leaving out what is negligible. Only ratios of neighbours are needed, so
    no factorial, power or logarithm is ever evaluated; near successes / trials = p the work grows with sqrt(trials).
    """
    if level <= 0:
        return False
    if successes <= 0 or p >= 1:
        return level >= 1
    if successes > trials or p <= 0:
        return True
    odds, against = p.numerator, p.denominator - p.numerator
    upper = _upper_sum_from(successes, trials, odds, against)
    # tail = U / (U + L) grows with U and falls with L, so the rounded values bound it from above: U <= level * (U + L)
    needed = -(-upper * (level.denominator - level.numerator) // level.numerator)
    return _lower_sum_reaches(needed, successes, trials, odds, against)


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
    """Proves that SCALE times the sum of w(i), i < successes, is at least `needed`; ends as soon as it is."""
    term, total = SCALE, 0
    for i in range(successes, 0, -1):
        up, down = i * against, (trials - i + 1) * odds
        term = term * up // down
        total += term
        if total >= needed or (up < down and term <= total >> NEGLIGIBLE):
            break
    return total >= needed
