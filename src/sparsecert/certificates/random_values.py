"""Tight certificates for units that are replaced by random values (`schemes.RandomValues`).

Lee, Yuan, Chang & Jaakkola, "Tight Certificates of Adversarial Robustness for Randomly Smoothed Classifiers" (NeurIPS
2019). Their certificate is `majority`; `lead` compares the same worst case with the strongest rival. By pairs,
`majority` is asked of every comparison of two classes.
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
from sparsecert.errors import InputError, check_int
from sparsecert.schemes import DELTA_BITS, RandomValues, Scheme
from sparsecert.schemes.random_values import MOST_EXACT

HALF, ONE = Fraction(1, 2), 1 << DELTA_BITS
CLOSE_TO_ONE = 1 - Fraction(1, 1 << 40)  # larger thresholds are not listed


def majority(interval: Interval, scheme: Scheme) -> int | None:
    """If least(p_lower) > 1/2, where least(p) is the smallest probability that an event of probability p or more at x
    can have rho units away, then g(x') = A whenever x' differs from x in at most rho units.

    By the Neyman-Pearson lemma, of all (randomised) sets of copies of probability p at x, the one that takes copies in
    decreasing order of the likelihood ratio is the least likely at x': p_A(x') can be that small, and no smaller. The
    ratio depends on m alone (see `schemes.RandomValues`), so copies are taken by m, the last group in part. Fewer
    perturbed units are no worse: sets that ignore the other units are among those compared.

    Pairwise, p_lower bounds q_j, the probability that a copy ranks A above j, for every class j (`bounds.pairwise`).
    That too is an event of the copy alone, so q_j(x') >= least(q_j(x)) >= least(p_lower) > 1/2, since least grows with
    p: A beats every class at x', which is g(x') = A (`beats_all`). It is as tight: copies in the worst set may rank A
    first and all others rank it last, so that every q_j(x') is least(p_lower).
    """
    p = Fraction(interval.p_lower)
    return _largest(scheme, lambda worst: 2 * worst.least(p) > ONE)


def lead(interval: Interval, scheme: Scheme) -> int | None:
    """If least(p_lower) > most(p_upper), with least as in `majority` and most(p) = 1 - least(1 - p), then g(x') = A
    whenever x' differs from x in at most rho units.

    An event of probability p or less at x has a complement of probability 1 - p or more there, hence at least
    least(1 - p) at x': most(p) is the largest probability that it can have at x'. So for every rival j
    p_j(x') <= most(p_upper) < least(p_lower) <= p_A(x'). It is tight: where p_lower + p_upper <= 1, A takes the copies
    with the largest ratios and one rival those with the smallest, which are different copies, so both worst cases can
    occur at once. With p_upper = 1 - p_lower this is `majority`; a smaller p_upper can only enlarge the radius.
    It is never below that of Corollary 2 either: Theorem 1 says least(p) >= p - delta and most(p) <= p + delta.
    """
    p, rest = Fraction(interval.p_lower), 1 - Fraction(interval.p_upper)
    return _largest(scheme, lambda worst: worst.least(p) + worst.least(rest) > ONE)


@dataclass(frozen=True)
class WorstCase:
    """`least` for one rho, in integer units of 2**-128, never above the true value.

    least(p) is convex and piecewise linear, with one piece per m: as p goes from c to c + (the probability of m at x),
    least grows from d with slope (beta / kappa)**m, which increases as m decreases. So least(p) is the maximum of the
    lines d + (p - c) * slope, and every line is a lower bound for all p. Any of them is therefore sound, with slope and
    intercept rounded down; `ends` finds the largest, up to rounding.
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
    """From the law of m at rho perturbed units (`RandomValues.laws`)."""
    kept, other = scheme.parts
    total = scheme.size**rho
    ends, slopes, intercepts = [], [], []
    befores = accumulate(law, initial=0), accumulate(reversed(law), initial=0)
    for m, own, before, before_there in zip(count(rho, -1), law, *befores, strict=False):
        if not own:  # no copy of x has this m
            continue
        up, down = (Fraction(other, kept) ** m).as_integer_ratio()
        ends.append(((before + own) << DELTA_BITS) // total)
        slopes.append((up << DELTA_BITS) // down)
        intercepts.append(((before_there * down - before * up) << DELTA_BITS) // (total * down))
    return WorstCase(tuple(ends), tuple(slopes), tuple(intercepts))


class WorstCases:
    """The worst case for each rho up to MOST_EXACT, computed once on first use; thread-safe."""

    def __init__(self, scheme: RandomValues) -> None:
        self.most = min(scheme.units, MOST_EXACT)
        self._made: list[WorstCase] = []
        self._more: Iterator[WorstCase] = (worst_case(law, scheme, rho) for rho, law in enumerate(scheme.laws()))
        self._making = Lock()  # two threads at once might store the cases in the wrong order

    def __iter__(self) -> Iterator[WorstCase]:
        """For rho = 0, 1, ..., most."""
        for rho in range(self.most + 1):
            with self._making:
                if rho == len(self._made):
                    self._made.append(next(self._more))
            yield self._made[rho]


@lru_cache(maxsize=64)
def worst_cases(scheme: RandomValues) -> WorstCases:
    return WorstCases(scheme)


def _largest(scheme: Scheme, survives: Callable[[WorstCase], bool]) -> int | None:
    """The largest rho whose worst case survives (larger rho are worse); None if not even 0 does."""
    if not isinstance(scheme, RandomValues):
        raise InputError(f"this theorem is for random values, not {scheme}; use Corollary 1 or 2")
    rho = -1
    for worst in worst_cases(scheme):
        if not survives(worst):
            break
        rho += 1
    return None if rho < 0 else rho


def needed(scheme: RandomValues, rho: int) -> Fraction:
    """The exact threshold that p_A(x) must exceed for p_A(x') > 1/2 within rho units; 1 if that is impossible."""
    rho = check_int("rho", rho, 0, MOST_EXACT)
    return _needed(next(islice(scheme.laws(), rho, None)), scheme.size**rho)


def thresholds(scheme: RandomValues) -> Iterator[Fraction]:
    """`needed` for rho = 0, 1, ..., while it is below 1 - 2**-40."""
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
