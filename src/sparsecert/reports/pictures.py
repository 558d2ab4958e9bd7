"""Ablated copies as pictures, with NULL in a colour of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sparsecert.counts import Bool
from sparsecert.datasets import Dataset
from sparsecert.schemes import ESTIMATION, Scheme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NULL = {  # by the number of channels: the green of the paper's Figure 1 for grey images, pink for colour ones
    1: ("green", (70, 150, 80)),
    3: ("pink", (222, 66, 160)),
}
Pixels = npt.NDArray[np.uint8]


def image(data: Dataset, example: int) -> Pixels:
    """The grey image of that number."""
    grey: Pixels = data.images.batch([example])[0, 0]
    return grey


def retained(scheme: Scheme, seed: int, example: int, draw: int, shape: tuple[int, ...]) -> Bool:
    """The mask of the input's estimation copy number `draw`."""
    mask: Bool = scheme.masks(seed, [example], [ESTIMATION + draw])[0, 0].numpy()
    return mask.reshape(shape)


def with_null(pixels: Pixels, retained: Bool) -> Pixels:
    """uint8[h, w, 3]: the image [c, h, w] in colour, with NULL where it is ablated."""
    null = np.array(NULL[len(pixels)][1], dtype=np.uint8)[:, None, None]
    return np.moveaxis(np.where(retained, pixels, null), 0, 2)


def show(axes: Axes, picture: Pixels, title: str = "", **font: Any) -> None:
    """Draws a picture without axes, under a title."""
    axes.imshow(picture, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    axes.set_title(title, **{"fontsize": 8, **font})
    for spine in axes.spines.values():
        spine.set_color("0.6")
