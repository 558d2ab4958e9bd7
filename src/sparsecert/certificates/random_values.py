"""Certificates for units that are replaced by random other values (`schemes.RandomValues`): tight ones.

Lee, Yuan, Chang & Jaakkola, "Tight Certificates of Adversarial Robustness for Randomly Smoothed Classifiers" (NeurIPS
2019). Their certificate is `majority`; `lead` holds the same worst case against the strongest rival as well.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, count, islice
from threading import Lock

from sparsecert.bounds.interval import Interval
from sparsecert.checks import whole
from sparsecert.errors import InputError
from sparsecert.schemes import DELTA_BITS, RandomValues, Scheme
from sparsecert.schemes.random_values import MOST_EXACT

HALF, ONE = Fraction(1, 2), 1 << DELTA_BITS
CLOSE_TO_ONE = 1 - Fraction(1, 1 << 40)  # thresholds above this are not listed


def majority(interval: Interval, scheme: Scheme) -> int | None:
    """If least(p_lower) > 1/2, where least(p) is the smallest probability that an event of probability p or more at x
    can have rho units away, then g(x') = A whenever x' differs from x in at most rho units.

    By Neyman & Pearson, of all (random) sets of copies of probability p at x one that takes them in falling order of
    the likelihood ratio is the least likely at x': p_A(x') can be that small, and no smaller. By
    `schemes.RandomValues` the ratio depends on m alone, so sets of equal m are taken, the last one in part. Fewer
    altered units are no worse: a set that does not look at the others is among those that are compared.
    """
    p = Fraction(interval.p_lower)
    return _largest(scheme, lambda worst: 2 * worst.least(p) > ONE)


def lead(interval: Interval, scheme: Scheme) -> int | None:
    """If least(p_lower) > most(p_upper), with least as in `majority` and most(p) = 1 - least(1 - p), then g(x') = A
    whenever x' differs from x in at most rho units.

    An event of probability p or less at x has a complement of probability 1 - p or more there, so at least
    least(1 - p) at x': most(p) is the largest probability that it can have at x'. So for every rival j
    p_j(x') <= most(p_upper) < least(p_lower) <= p_A(x'). It is tight: where p_lower + p_upper <= 1, A takes the copies
    with the largest ratios and one rival those with the smallest, which are different copies, so that both worst cases
    come about at once. With p_upper = 1 - p_lower this is `majority`; a smaller p_upper can only enlarge the radius.
    It is never below that of Corollary 2 either: Theorem 1 says least(p) >= p - delta and most(p) <= p + delta.
    """
    p, rest = Fraction(interval.p_lower), 1 - Fraction(interval.p_upper)
    return _largest(scheme, lambda worst: worst.least(p) + worst.least(rest) > ONE)


@dataclass(frozen=True)
class WorstCase:
    """`least` for one rho, in whole numbers of 2**-128 that are never above the truth.

    least(p) is convex and made of straight pieces, one for each m: where p goes from c to c + (its probability at x),
    least goes from d on with the slope (beta / kappa)**m, which grows as m falls. So least(p) is the largest of the
    lines d + (p - c) * slope, and each of them alone is below it for every p. Whichever is taken, with slope and
    intercept rounded down, the result is sound; `ends` finds the one that is the largest, but for rounding.
    """

    ends: tuple[int, ...]
    slopes: tuple[int, ...]
    intercepts: tuple[int, ...]

    def least(self, p: Fraction) -> int:
        """The smallest probability rho units away of an event of probability p or more (from 0 to 1), rounded down."""
        own = (p.numerator << DELTA_BITS) // p.denominator
        place = bisect_left(self.ends, own)  # the last of them is 1
        return (self.slopes[place] * own >> DELTA_BITS) + self.intercepts[place]


def worst_case(law: list[int], scheme: RandomValues, rho: int) -> WorstCase:
    """Of the law of m at rho altered units (`RandomValues.laws`)."""
    kept, other = scheme.parts
    total = scheme.size**rho
    ends, slopes, intercepts = [], [], []
    befores = accumulate(law, initial=0), accumulate(reversed(law), initial=0)
    for m, own, before, before_there in zip(count(rho, -1), law, *befores, strict=False):
        if not own:  # no copy of x shows this, so nothing of p lies here
            continue
        up, down = (Fraction(other, kept) ** m).as_integer_ratio()
        ends.append(((before + own) << DELTA_BITS) // total)
        slopes.append((up << DELTA_BITS) // down)
        intercepts.append(((before_there * down - before * up) << DELTA_BITS) // (total * down))
    return WorstCase(tuple(ends), tuple(slopes), tuple(intercepts))


class WorstCases:
    """The worst case for each rho up to MOST_EXACT, made once, when it is first asked for, whatever thread asks."""

    def __init__(self, scheme: RandomValues) -> None:
        self.most = min(scheme.units, MOST_EXACT)
        self._made: list[WorstCase] = []
        self._more: Iterator[WorstCase] = (worst_case(law, scheme, rho) for rho, law in enumerate(scheme.laws()))
        self._making = Lock()  # of two threads at once, one might put a smaller rho's case in a larger one's place

    def __iter__(self) -> Iterator[WorstCase]:
        """For rho = 0, 1, ..., most."""
        for rho in range(self.most + 1):
            with self._making:
                if rho == len(self._made):
                    self._made.append(next(self._more))
            yield self._made[rho]


@lru_cache(maxsize=64)
def worst_cases(scheme: RandomValues) -> WorstCases:
    """The worst cases of a scheme."""
    return WorstCases(scheme)


def _largest(scheme: Scheme, survives: Callable[[WorstCase], bool]) -> int | None:
    """The largest rho whose worst case is survived, since that of a larger rho is worse; None where not even 0 is."""
    if not isinstance(scheme, RandomValues):
        raise InputError(f"this theorem is of random values, not of {scheme}; use Corollary 1 or 2")
    rho = -1
    for worst in worst_cases(scheme):
        if not survives(worst):
            break
        rho += 1
    return None if rho < 0 else rho


def needed(scheme: RandomValues, rho: int) -> Fraction:
    """p_A(x) must be above this for p_A(x') > 1/2 wherever x' is at most rho units away, exactly; 1: it cannot be."""
    rho = whole("rho", rho, 0, MOST_EXACT)
    return _needed(next(islice(scheme.laws(), rho, None)), scheme.size**rho)


def thresholds(scheme: RandomValues) -> Iterator[Fraction]:
    """`needed` of 0, 1, ... up to as many units as there are, as long as it is below 1 - 2**-40."""
    for rho, law in zip(range(min(scheme.units, MOST_EXACT) + 1), scheme.laws(), strict=False):
        found = _needed(law, scheme.size**rho)
        if found >= CLOSE_TO_ONE:
            return
        yield found


def _needed(law: list[int], total: int) -> Fraction:
    own = other = 0
    for here, there in zip(law, reversed(law), strict=True):
        if 2 * (other + there) >= total:
            return Fraction(own, total) + (HALF - Fraction(other, total)) * Fraction(here, there)
        own, other = own + here, other + there
    raise AssertionError("all values of m together have probability 1")
