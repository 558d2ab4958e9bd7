"""Blocks and bands: masks against patch attacks.

Levine & Feizi, "(De)Randomized Smoothing for Certifiable Defense against Patch Attacks" (NeurIPS 2020).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from sparsecert.errors import InputError, check_int
from sparsecert.registry import SCHEMES, Option
from sparsecert.schemes.fixed_masks import ImageMasks

MOST_BLOCKS = 1 << 12
SIZE = Option("--size", int, "Pixels of a side of a block, or across a band.", least=1, required=True, short="-{}")
HORIZONTAL = Option("--horizontal", bool, "Bands of whole rows instead of columns.", "rows", short="-rows")


@SCHEMES.register("blocks")
@dataclass(frozen=True)
class Blocks(ImageMasks):
    """Retains a size x size block at each of the height * width positions; blocks wrap around the edges, so that every
    pixel is in size ** 2 masks.

    A patch of m x m pixels meets the blocks at min(size + m - 1, height) rows and min(size + m - 1, width) columns.
    """

    options: ClassVar[tuple[Option, ...]] = (SIZE,)
    words: ClassVar[dict[str, str]] = {**ImageMasks.words, "size": "size {size}"}
    against: ClassVar[str] = "patches"
    rule: ClassVar[str] = "run-off"  # more accurate here: docs/pairwise.md

    size: int

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "size", check_int("size", self.size, 1, min(self.height, self.width)))
        if self.units > MOST_BLOCKS:
            raise InputError(f"blocks are for images of up to {MOST_BLOCKS} pixels, got {self.units}; use Bands")

    def patch_delta(self, side: int) -> Fraction:
        """The share of masks that a patch of side x side pixels meets, wherever it is: at most so many votes change."""
        return _share(self, self.height, side) * _share(self, self.width, side)

    def _table(self) -> npt.NDArray[np.bool_]:
        rows, columns = _runs(self.height, self.size), _runs(self.width, self.size)
        table: npt.NDArray[np.bool_] = np.einsum("ay,bx->abyx", rows, columns).reshape(self.units, self.units)
        return table


@SCHEMES.register("bands")
@dataclass(frozen=True)
class Bands(ImageMasks):
    """Retains a band of `size` columns (rows, if `rows`) at each position; bands wrap around the edges, so that every
    pixel is in `size` masks.

    A patch of m x m pixels meets min(size + m - 1, all) of them.
    """

    options: ClassVar[tuple[Option, ...]] = (SIZE, HORIZONTAL)
    words: ClassVar[dict[str, str]] = {**Blocks.words, "rows": "rows"}
    against: ClassVar[str] = "patches"
    rule: ClassVar[str] = "run-off"  # more accurate here: docs/pairwise.md

    size: int
    rows: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "size", check_int("size", self.size, 1, self.height if self.rows else self.width))
        object.__setattr__(self, "rows", bool(self.rows))

    def patch_delta(self, side: int) -> Fraction:
        """The share of masks that a patch of side x side pixels meets, wherever it is: at most so many votes change."""
        return _share(self, self.height if self.rows else self.width, side)

    def _table(self) -> npt.NDArray[np.bool_]:
        bands = _runs(self.height if self.rows else self.width, self.size)
        shaped = bands[:, :, None] if self.rows else bands[:, None, :]
        return np.broadcast_to(shaped, (len(bands), self.height, self.width)).reshape(len(bands), self.units).copy()


def _runs(length: int, size: int) -> npt.NDArray[np.bool_]:
    """Bool[length, length]: row a retains a, a + 1, ..., a + size - 1, modulo length."""
    places = np.arange(length)
    runs: npt.NDArray[np.bool_] = (places[None] - places[:, None]) % length < size
    return runs


def _share(scheme: Blocks | Bands, length: int, side: int) -> Fraction:
    """Of the `length` runs along one axis, the share that contains any of `side` neighbouring places."""
    side = check_int("side", side, 1, min(scheme.height, scheme.width))
    return Fraction(min(length, scheme.size + side - 1), length)
