"""A partition of an image into grids: each mask is the image at a lower resolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from sparsecert.errors import check_int
from sparsecert.registry import SCHEMES, Option
from sparsecert.schemes.fixed_masks import ImageMasks, parts_table


@SCHEMES.register("grid")
@dataclass(frozen=True)
class Grid(ImageMasks):
    """`spacing` x `spacing` disjoint masks that cover a height x width image.

    Mask i * spacing + j retains every spacing-th pixel of every spacing-th row, from row i and column j on: the image
    at a lower resolution, which a small network reads (`models.grid`). Large images have so many pixels that a copy
    still shows what is there when it retains one in a thousand, and the radius grows with the number of masks.
    """

    options: ClassVar[tuple[Option, ...]] = (
        Option("--spacing", int, "Retain every such pixel of every such row.", least=1, required=True, short="-{}"),
    )

    spacing: int

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "spacing", check_int("spacing", self.spacing, 1, min(self.height, self.width, 64)))

    def _table(self) -> npt.NDArray[np.bool_]:
        y, x = np.divmod(np.arange(self.units), self.width)
        return parts_table(y % self.spacing * self.spacing + x % self.spacing, self.spacing**2)
