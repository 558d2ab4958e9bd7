"""Anytime-valid proof of a lead by betting: the wealth of a bettor is an e-process.

The bettor starts with wealth 1 and before every vote stakes the share `stake` of it on the claim that class A leads
class B by more than `gap`. With X = 1 for a vote for A, -1 for B and 0 for any other, the wealth is multiplied by
1 + stake * (X - gap). If the claim is false, p_A - p_B <= gap, the factor's mean is at most 1 whatever came before: the
wealth is a supermartingale, never negative (stake <= 1/2 and gap < 1 keep every factor above 0), and by Ville's
inequality the probability that it *ever* reaches 1 / alpha is at most alpha. So it may be checked after every vote, and
sampling may stop by any rule, even an adversary's.

Ville, "Étude critique de la notion de collectif" (1939); Waudby-Smith & Ramdas, "Estimating means of bounded random
variables by betting" (JRSS B, 2024). With a constant stake the wealth depends on the three counts alone, not on the
order of the votes, so it can be recomputed from a record. Logarithms are bounded from below in integer arithmetic: no
library's rounding matters.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

BITS = 48  # logarithms to base 2 are integers in units of 2**-BITS
MANTISSA = 128
STAKES = 1024  # a stake is a whole number of 1 / STAKES, at most half of them


Growth = tuple[int, int, int]


def is_proved(leader: int, rival: int, others: int, gap: Fraction, stake: int, alpha: Fraction) -> bool:
    """Proves that the wealth after these votes is at least 1 / alpha; False means not proved."""
    return reaches(leader, rival, others, growth(stake, gap), -log2_below(alpha))


def reaches(leader: int, rival: int, others: int, each: Growth, enough: int) -> bool:
    """`is_proved`, given the log-growth of the wealth per vote and the logarithm of the wealth that proves it."""
    return leader * each[0] + rival * each[1] + others * each[2] >= enough


def best_stake(variance: float, votes: int, alpha: Fraction) -> int:
    """The stake, in units of 1 / STAKES, that proves the smallest lead after about `votes` votes.

    After n votes a stake s needs a lead of about log(1 / alpha) / (n s) + s * variance / 2 beyond the gap, least at
    s = sqrt(2 log(1 / alpha) / (n variance)). Any stake fixed before the votes are seen is sound.
    """
    best = math.sqrt(2 * needed(alpha) / (votes * variance))
    return max(1, min(STAKES // 2, int(best * STAKES)))


@lru_cache(maxsize=1 << 10)
def needed(alpha: Fraction) -> float:
    """About log(1 / alpha), even if 1 / alpha overflows a float."""
    return math.log(alpha.denominator) - math.log(alpha.numerator)


@lru_cache(maxsize=1 << 16)
def growth(stake: int, gap: Fraction) -> Growth:
    """Lower bounds on the log-growth per vote for the leader, for the rival and for another class."""
    share = Fraction(stake, STAKES)
    if not 0 < share <= Fraction(1, 2) or not 0 <= gap < 1:
        raise ValueError(f"stake must be in (0, 1/2] and gap in [0, 1), got {share} and {float(gap)}")
    return log2_below(1 + share * (1 - gap)), log2_below(1 - share * (1 + gap)), log2_below(1 - share * gap)


@lru_cache(maxsize=1 << 10)
def log2_below(x: Fraction) -> int:
    """An integer at most log2(x) * 2**BITS, and within 1 of it.

    Digit by digit: with x = 2**whole * y and 1 <= y < 2, the next binary digit of log2(y) says whether y * y reaches 2.
    y is a mantissa that every step rounds down, so the digits are those of a number no larger.
    """
    if x <= 0:
        raise ValueError(f"x must be positive, got {x}")
    whole = x.numerator.bit_length() - x.denominator.bit_length()
    if x < Fraction(2) ** whole:
        whole -= 1
    mantissa = math.floor(x / Fraction(2) ** whole * (1 << MANTISSA))
    digits = 0
    for _ in range(BITS):
        mantissa = mantissa * mantissa >> MANTISSA
        digits <<= 1
        if mantissa >> (MANTISSA + 1):
            mantissa >>= 1
            digits |= 1
    return (whole << BITS) + digits
