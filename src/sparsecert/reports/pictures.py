"""Ablated copies of grey images as pictures, with NULL in green."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sparsecert.datasets import Dataset
from sparsecert.schemes import ESTIMATION, Scheme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GREEN = np.array([70, 150, 80], dtype=np.uint8)  # NULL, as in the paper's Figure 1
Pixels = npt.NDArray[np.uint8]


def image(data: Dataset, example: int) -> Pixels:
    """The grey image of that number."""
    grey: Pixels = data.images.batch([example])[0, 0]
    return grey


def retained(scheme: Scheme, seed: int, example: int, draw: int, shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """The mask of the input's estimation copy number `draw`."""
    mask: npt.NDArray[np.bool_] = scheme.masks(seed, [example], [ESTIMATION + draw])[0, 0].numpy()
    return mask.reshape(shape)


def with_null(grey: Pixels, mask: npt.NDArray[np.bool_]) -> Pixels:
    """The image in colour, green where it is ablated."""
    return np.where(mask[..., None], np.repeat(grey[..., None], 3, axis=2), GREEN)


def show(axes: Axes, picture: Pixels, title: str = "", **font: Any) -> None:
    """Draws a picture without axes, under a title."""
    axes.imshow(picture, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    axes.set_title(title, **{"fontsize": 8, **font})
    for spine in axes.spines.values():
        spine.set_color("0.6")
