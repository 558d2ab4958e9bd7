"""Figure 4: why NULL needs to be seen. An image, NULL as a colour of its own, as the mean, and as random noise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sparsecert.datasets import Dataset
from sparsecert.datasets.mnist import MEAN
from sparsecert.reports.drawing import write_figure
from sparsecert.reports.pictures import image, retained, show, with_null
from sparsecert.schemes import Uniform

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEEP = 85  # the paper's


def figure_4(data: Dataset, path: Path, *, example: int = 0, seed: int = 0) -> list[Path]:
    """Writes the four pictures of one image, with 85 pixels retained, as in the paper."""
    return write_figure(lambda: _figure(data, example, seed), path)


def _figure(data: Dataset, example: int, seed: int) -> Figure:
    from matplotlib.figure import Figure

    grey = image(data, example)
    mask = retained(Uniform(grey.size, KEEP), seed, example, 0, grey.shape)
    noise = np.random.default_rng(seed).integers(0, 256, grey.shape, dtype=np.uint8)
    pictures = {
        "(a) the image": grey,
        f"(b) k = {KEEP}, NULL a symbol\nof its own (green)": with_null(grey[None], mask),
        "(c) NULL = the training\nset's mean": np.where(mask, grey, np.uint8(round(255 * MEAN[0]))),
        "(d) NULL = random noise": np.where(mask, grey, noise),
    }
    figure = Figure(figsize=(8, 2.45), layout="constrained")
    for place, (title, picture) in enumerate(pictures.items(), start=1):
        show(figure.add_subplot(1, len(pictures), place), picture, title, fontsize=9)
    return figure
