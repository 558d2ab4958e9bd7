"""Certified accuracy and the medians that summarise it, from the certified robustness of each input.

An input's certified robustness is its certified radius where the certified label is the true one, otherwise N/A (None).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


def certified_accuracy(robustness: Sequence[int | None]) -> tuple[float, ...]:
    """The share of inputs with certified robustness of at least rho, for rho = 0, 1, ... up to the largest one.

    Beyond the last entry the certified accuracy is 0; there is no entry when every input is N/A.
    """
    having = Counter(rho for rho in robustness if rho is not None)
    at_least, shares = having.total(), []
    for rho in range(max(having, default=-1) + 1):
        shares.append(at_least / len(robustness))
        at_least -= having[rho]
    return tuple(shares)


def median_certified_robustness(robustness: Sequence[int | None]) -> int | None:
    """The largest rho whose certified accuracy is at least one half; None (N/A) when it is below that already at 0.

    N/A counts as minus infinity: half of the inputs, rounded up, have to reach the median.

    >>> median_certified_robustness([None, None, 1, 2, 3])
    1
    """
    known = sorted((rho for rho in robustness if rho is not None), reverse=True)
    needed = (len(robustness) + 1) // 2
    return known[needed - 1] if 0 < needed <= len(known) else None
