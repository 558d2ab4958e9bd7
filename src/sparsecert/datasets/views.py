"""Cropping an image to what the model sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sparsecert.datasets import random_crop
from sparsecert.datasets.image_file import open_image
from sparsecert.errors import InputError

if TYPE_CHECKING:
    from PIL import Image

Sides = tuple[int, int]  # height and width


class View(Protocol):
    """A crop of an image: a pure function of the arguments and the view's own fields."""

    def __call__(self, image: Image.Image, sides: Sides, index: int) -> Image.Image:
        """An image of these sides; `index` is that of the image in its data set."""

    def config(self) -> dict[str, Any]:
        """JSON values from which `view_from_config` makes the same view."""


@dataclass(frozen=True)
class CentreCrop:
    """Shorter side resized to size * 256 / 224, then the centre; an image that has the size is left as it is."""

    def __call__(self, image: Image.Image, sides: Sides, index: int) -> Image.Image:
        size, across = sides
        if image.size == (across, size):
            return image
        if size != across:
            raise InputError(f"an image is {image.size[0]} x {image.size[1]} pixels, all others {across} x {size}")
        shorter = round(size * 256 / 224)
        width, height = (max(shorter, int(shorter * side / min(image.size))) for side in image.size)
        left, top = round((width - size) / 2), round((height - size) / 2)
        return _resize(image, width, height).crop((left, top, left + size, top + size))

    def config(self) -> dict[str, Any]:
        return {"kind": "centre"}


@dataclass(frozen=True)
class RandomCrop:
    """A random resized crop, flipped half the time; a function of (seed, epoch, index) alone."""

    seed: int
    epoch: int

    def __call__(self, image: Image.Image, sides: Sides, index: int) -> Image.Image:
        from PIL.Image import Transpose

        crop = random_crop.draw(*image.size, self.seed, self.epoch, index)
        box = (crop.left, crop.top, crop.left + crop.width, crop.top + crop.height)
        part = _resize(image.crop(box), sides[1], sides[0])
        return part.transpose(Transpose.FLIP_LEFT_RIGHT) if crop.flip else part

    def config(self) -> dict[str, Any]:
        return {"kind": "random", "seed": int(self.seed), "epoch": int(self.epoch)}


def view_from_config(config: dict[str, Any]) -> View:
    return CentreCrop() if config["kind"] == "centre" else RandomCrop(config["seed"], config["epoch"])


def load_view(path: Path, view: View, shape: Sequence[int], index: int) -> NDArray[np.uint8]:
    """Decodes and crops a file: uint8 of this shape, channels (1 or 3), height and width."""
    channels, height, width = shape
    pixels = np.asarray(view(open_image(path, channels), (height, width), index), dtype=np.uint8)
    return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)


def _resize(image: Image.Image, width: int, height: int) -> Image.Image:
    from PIL.Image import Resampling

    return image.resize((width, height), Resampling.BILINEAR)
