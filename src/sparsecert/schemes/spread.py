"""A partition of an image into masks that each see all of it, from its centre outwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from sparsecert.counts import Int64
from sparsecert.errors import check_int
from sparsecert.registry import SCHEMES, Option
from sparsecert.schemes.fixed_masks import PARTS, ImageMasks, parts_table

CLOSENESS = 1 << 40  # of two pixels: CLOSENESS // (NEAR + squared distance) ** 2
NEAR = 9


@SCHEMES.register("spread")
@dataclass(frozen=True)
class Spread(ImageMasks):
    """`parts` disjoint masks that cover a height x width image, their sizes one apart at most.

    Pixels are dealt out from the centre of the image outwards, as many at a time as there are parts, so that every mask
    gets its share of the middle, where most of what there is to see is, and of the edges. Each goes to the part, of
    those that have none of this deal, to whose pixels it is least close. Integers alone decide, so that the masks are
    the same everywhere. A lattice with as many parts gives some masks more of the middle than others.
    """

    options: ClassVar[tuple[Option, ...]] = (PARTS,)

    parts: int

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "parts", check_int("parts", self.parts, 1, min(1 << 10, self.units)))

    def _table(self) -> npt.NDArray[np.bool_]:
        y, x = np.divmod(np.arange(self.units), self.width)
        outwards = (2 * y - self.height + 1) ** 2 + (2 * x - self.width + 1) ** 2
        parts: Int64 = np.zeros(self.units, dtype=np.int64)
        close: Int64 = np.zeros((self.parts, self.units), dtype=np.int64)  # of the pixels of each part to each pixel
        for place, pixel in enumerate(np.argsort(outwards, kind="stable").tolist()):
            if place % self.parts == 0:
                waiting = np.ones(self.parts, dtype=np.bool_)
            part = int(np.where(waiting, close[:, pixel], np.iinfo(np.int64).max).argmin())
            parts[pixel], waiting[part] = part, False
            close[part] += CLOSENESS // (NEAR + (y - y[pixel]) ** 2 + (x - x[pixel]) ** 2) ** 2
        return parts_table(parts, self.parts)
