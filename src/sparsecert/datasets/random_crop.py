"""The random resized crop and flip of ImageNet training: which rectangle to take."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sparsecert.errors import InputError

AREA = (0.08, 1.0)
ASPECT = (3 / 4, 4 / 3)
TRIES = 10


@dataclass(frozen=True)
class Crop:
    """A rectangle inside an image, in pixels, and whether to flip it left to right."""

    left: int
    top: int
    width: int
    height: int
    flip: bool


def draw(width: int, height: int, seed: int, epoch: int, index: int) -> Crop:
    """The crop of image `index` in `epoch`: a pure function of the arguments, always inside width x height.

    The area is uniform in 8% to 100% of the image, the aspect ratio log-uniform in 3/4 to 4/3. After ten rectangles
    that do not fit, the largest centred one of an allowed aspect ratio is taken. Half the crops are flipped.
    """
    if seed < 0 or epoch < 0:
        raise InputError(f"seed and epoch must be at least 0, got seed {seed} and epoch {epoch}")
    generator = np.random.default_rng([seed, epoch, index])
    flip = bool(generator.random() < 0.5)
    for _ in range(TRIES):
        area = width * height * generator.uniform(*AREA)
        aspect = math.exp(generator.uniform(math.log(ASPECT[0]), math.log(ASPECT[1])))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            left, top = generator.integers(width - w + 1), generator.integers(height - h + 1)
            return Crop(int(left), int(top), w, h, flip)
    return _centred(width, height, flip)


def _centred(width: int, height: int, flip: bool) -> Crop:
    w = min(width, round(height * ASPECT[1]))
    h = min(height, round(width / ASPECT[0]))
    return Crop((width - w) // 2, (height - h) // 2, w, h, flip)
