"""Which square of a photograph a model is shown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sparsecert.datasets import random_crop
from sparsecert.datasets.photograph import opened


class View(Protocol):
    """A square of a photograph, as a pure function of these arguments and of the view's own fields."""

    def __call__(self, image: Image.Image, size: int, index: int) -> Image.Image:
        """The square of `size` pixels; `index` is the photograph's number in its data set."""

    def config(self) -> dict[str, Any]:
        """What `view_of` makes the same view from: plain JSON values."""


@dataclass(frozen=True)
class CentreCrop:
    """Shorter side resized to size * 256 / 224, then the centre; an image of the size wanted is taken as it is."""

    def __call__(self, image: Image.Image, size: int, index: int) -> Image.Image:
        """The square of `size` pixels in the middle."""
        if image.size == (size, size):
            return image
        shorter = round(size * 256 / 224)
        width, height = (max(shorter, int(shorter * side / min(image.size))) for side in image.size)
        left, top = round((width - size) / 2), round((height - size) / 2)
        return _resized(image, width, height).crop((left, top, left + size, top + size))

    def config(self) -> dict[str, Any]:
        """There is nothing to say but the kind."""
        return {"kind": "centre"}


@dataclass(frozen=True)
class RandomCrop:
    """A random resized crop, half of them flipped; each is a function of (seed, epoch, index) alone."""

    seed: int
    epoch: int

    def __call__(self, image: Image.Image, size: int, index: int) -> Image.Image:
        """The square of `size` pixels that this epoch shows of the image."""
        crop = random_crop.draw(*image.size, self.seed, self.epoch, index)
        box = (crop.left, crop.top, crop.left + crop.width, crop.top + crop.height)
        square = _resized(image.crop(box), size, size)
        return square.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if crop.flip else square

    def config(self) -> dict[str, Any]:
        """The seed and the epoch."""
        return {"kind": "random", "seed": int(self.seed), "epoch": int(self.epoch)}


def view_of(config: dict[str, Any]) -> View:
    """The view whose `config()` this is."""
    return CentreCrop() if config["kind"] == "centre" else RandomCrop(config["seed"], config["epoch"])


def decoded(path: Path, view: View, size: int, index: int) -> NDArray[np.uint8]:
    """What `view` shows of a file, as uint8 [3, size, size]."""
    return np.asarray(view(opened(path), size, index), dtype=np.uint8).transpose(2, 0, 1)


def _resized(image: Image.Image, width: int, height: int) -> Image.Image:
    return image.resize((width, height), Image.Resampling.BILINEAR)
