"""Lattices: partitions of an image into evenly spread masks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from sparsecert.counts import Int64
from sparsecert.errors import InputError, check_int
from sparsecert.registry import SCHEMES, Option
from sparsecert.schemes.fixed_masks import PARTITIONS, PARTS, ImageMasks, parts_table

MOST_PARTS = 1 << 10


@SCHEMES.register("lattice")
@dataclass(frozen=True)
class Lattice(ImageMasks):
    """`parts` disjoint masks that cover a height x width image, their sizes one apart at most.

    Pixel (y, x) belongs to part (a x + b y) mod parts, so that every mask is a lattice, cut off at the edges. Of all a
    and b whose parts are of equal size (or one apart), those are taken that maximise the distance between the nearest
    two pixels of a mask. Several `rounds` add the next best partitions, all different.
    """

    options: ClassVar[tuple[Option, ...]] = (PARTS, PARTITIONS)

    parts: int
    rounds: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        most = min(MOST_PARTS, self.units)
        object.__setattr__(self, "parts", check_int("parts", self.parts, 1, most))
        object.__setattr__(self, "rounds", check_int("rounds", self.rounds, 1, MOST_PARTS))

    def _table(self) -> npt.NDArray[np.bool_]:
        found: list[Int64] = []
        for across, down in self._steps():
            parts = self._parts(across, down)
            if self._even(parts) and not any(_same(parts, other) for other in found):
                found.append(parts)
            if len(found) == self.rounds:
                return np.concatenate([parts_table(one, self.parts) for one in found])
        raise InputError(
            f"a {self.height} x {self.width} image has {len(found)} lattice partitions into {self.parts} parts of "
            f"equal size, and {self.rounds} rounds are asked for; take other parts, fewer rounds, or Partition"
        )

    def _steps(self) -> list[tuple[int, int]]:
        """All (a, b), the most spread first; smaller numbers first on a tie."""
        pairs = [(across, down) for across in range(self.parts) for down in range(self.parts)]
        return sorted(pairs, key=lambda pair: (-self._spread(*pair), pair))

    def _spread(self, across: int, down: int) -> float:
        """The squared distance between the nearest two pixels of a part; they are at most `parts` apart."""
        right, below = min(self.parts, self.width - 1), min(self.parts, self.height - 1)
        x, y = np.arange(-right, right + 1)[None], np.arange(below + 1)[:, None]
        together = ((y > 0) | (x > 0)) & ((across * x + down * y) % self.parts == 0)
        squares = (x**2 + y**2)[together]
        return float(squares.min()) if squares.size else math.inf

    def _parts(self, across: int, down: int) -> Int64:
        y, x = np.divmod(np.arange(self.units), self.width)
        parts: Int64 = (across * x + down * y) % self.parts
        return parts

    def _even(self, parts: Int64) -> bool:
        sizes = np.bincount(parts, minlength=self.parts)
        return bool(sizes.max() - sizes.min() <= 1)


def _same(parts: Int64, others: Int64) -> bool:
    """Whether they are the same partition up to the numbering of its parts."""
    pairs = np.unique(np.stack((parts, others)), axis=1).shape[1]
    return bool(pairs == len(np.unique(parts)))
