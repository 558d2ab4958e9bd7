"""Every set of k units: the paper's scheme, where the masks are few enough to enumerate."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import comb
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from sparsecert.errors import InputError, check_int
from sparsecert.registry import SCHEMES, Option
from sparsecert.schemes.fixed_masks import FixedMasks
from sparsecert.schemes.uniform import KEEP, Uniform

MOST_MASKS = 1 << 17


@SCHEMES.register("all-subsets")
@dataclass(frozen=True)
class AllSubsets(FixedMasks):
    """All C(units, keep) masks that retain exactly `keep` of `units` units, in lexicographic order.

    The vote of all of them is the paper's smoothed classifier itself: the share of masks that vote for i is p_i(x),
    exactly.

    >>> AllSubsets(units=14, keep=5).table.shape
    (2002, 14)
    """

    options: ClassVar[tuple[Option, ...]] = (KEEP,)
    rule: ClassVar[str] = "plurality"  # which elects the paper's g
    few_units: ClassVar[bool] = True

    units: int
    keep: int

    def __post_init__(self) -> None:
        uniform = Uniform(self.units, self.keep)
        object.__setattr__(self, "units", uniform.units)
        object.__setattr__(self, "keep", uniform.keep)
        if (masks := comb(self.units, self.keep)) > MOST_MASKS:
            raise InputError(f"{self.keep} of {self.units} units make {masks:,} masks, too many to list; use Uniform")

    def _table(self) -> npt.NDArray[np.bool_]:
        return subsets_table(self.units, self.keep)

    @cached_property
    def _most_met(self) -> list[int]:
        """Exactly this many masks retain any of rho units, whichever they are."""
        left = (comb(self.units - rho, self.keep) for rho in range(self.units - self.keep + 2))
        return [len(self.table) - untouched for untouched in left]

    def delta(self, rho: int) -> Fraction:
        """1 - C(d - rho, k) / C(d, k), exactly."""
        return Uniform(self.units, self.keep).delta(rho)


def subsets_table(units: int, size: int) -> npt.NDArray[np.bool_]:
    """Bool[C(units, size), units]: every set of `size` units, in lexicographic order."""
    size = check_int("size", size, 0, units)
    chosen = np.array(list(combinations(range(units), size)), dtype=np.int64)
    table = np.zeros((len(chosen), units), dtype=np.bool_)
    np.put_along_axis(table, chosen, True, axis=1)
    return table
