"""Certified accuracy and median certified robustness.

An input's certified robustness is its certified radius if the certified label is the true one, otherwise N/A (None).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


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


def median_certified_robustness(robustness: Sequence[int | None]) -> int | None:
    """The largest rho at which certified accuracy is at least one half; None (N/A) if it is below that at 0.

    N/A counts as minus infinity.

    >>> median_certified_robustness([None, None, 1, 2, 3])
    1
    """
    known = sorted((rho for rho in robustness if rho is not None), reverse=True)
    needed = (len(robustness) + 1) // 2
    return known[needed - 1] if 0 < needed <= len(known) else None
