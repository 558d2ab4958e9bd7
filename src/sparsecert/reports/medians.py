"""Certified accuracy, its confidence interval, and median certified robustness.

An input's certified robustness is its certified radius if the certified label is the true one, otherwise N/A (None).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeVar

from sparsecert.bounds.clopper_pearson import lower_bound, upper_bound

EACH_SIDE = Fraction(1, 40)  # of a 95% interval


def certified_accuracy(robustness: Sequence[int | None]) -> tuple[float, ...]:
    """The share of inputs with certified robustness of at least rho, for rho = 0, 1, ... up to the largest.

    Beyond the last entry it is 0; there are no entries if every input is N/A.
    """
    counts = Counter(rho for rho in robustness if rho is not None)
    at_least, shares = counts.total(), []
    for rho in range(max(counts, default=-1) + 1):
        shares.append(at_least / len(robustness))
        at_least -= counts[rho]
    return tuple(shares)


Number = TypeVar("Number", int, Fraction)


def median_certified_robustness(robustness: Sequence[Number | None]) -> Number | None:
    """The largest rho at which certified accuracy is at least one half; None (N/A) if it is below that at 0.

    N/A counts as minus infinity.

    >>> median_certified_robustness([None, None, 1, 2, 3])
    1
    """
    known = sorted((rho for rho in robustness if rho is not None), reverse=True)
    needed = (len(robustness) + 1) // 2
    return known[needed - 1] if 0 < needed <= len(known) else None


def confidence_interval(share: float, inputs: int) -> tuple[float, float]:
    """The exact binomial (Clopper-Pearson) 95% interval of a share of so many inputs, a sample of a larger set."""
    count = round(share * inputs)
    return lower_bound(count, inputs, EACH_SIDE), upper_bound(count, inputs, EACH_SIDE)
