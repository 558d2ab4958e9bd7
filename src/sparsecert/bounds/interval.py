"""The results of bounds."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from sparsecert.counts import Tally


@dataclass(frozen=True)
class Interval:
    """With probability at least 1 - alpha over the masks: p_label >= p_lower, and p_j <= p_upper for all other j.

    `label` was chosen without the estimation votes. Exact probabilities (fractions) may stand in for the floats. Of the
    pairwise bound, p_lower is of ranking the label above j, and p_upper of ranking j above it, for all other j.
    """

    label: int
    p_lower: float | Fraction
    p_upper: float | Fraction


@dataclass(frozen=True)
class Lead:
    """With probability at least 1 - alpha over the masks: p_label - p_j > lead for all other j; -1 says nothing.

    Valid at any stopping time. Pairwise, it is the lead in a direct comparison: 2 q_j - 1, as in `bounds.pairwise`.
    """

    label: int
    lead: Fraction


class Bound(Protocol):
    """Counts -> interval. Selection and estimation votes must come from independent masks."""

    def __call__(self, selection: Tally, estimation: Tally, alpha: Fraction) -> Interval:
        """An interval that holds with probability at least 1 - alpha."""
