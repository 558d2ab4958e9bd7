"""What of an input can be perturbed by itself: pixels of an image, features of a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod


@dataclass(frozen=True)
class Units:
    """The `count` units of an input. name: what they are, in the plural. sides: height and width of the image that they
    form, row by row, which patches need; None where they form none.
    """

    name: str
    count: int
    sides: tuple[int, int] | None = None

    @classmethod
    def of(cls, shape: Sequence[int]) -> Units:
        """Those of an input of this shape: (channels, height, width), (channels, places, ...) or (features,)."""
        if len(shape) == 3:
            return cls("pixels", shape[1] * shape[2], (shape[1], shape[2]))
        return cls("features", shape[0]) if len(shape) == 1 else cls("units", prod(shape[1:]))
