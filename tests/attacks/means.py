"""A smoothed classifier of the digits that is the same on every machine: nothing in it is trained."""

from __future__ import annotations

import numpy as np
import torch

from sparsecert import datasets
from sparsecert.datasets import ArrayImages
from sparsecert.schemes import Uniform
from sparsecert.smoothed import Smoothed


def nearest_mean(keep: int = 16) -> Smoothed:
    """Each ablated copy votes for the class whose mean image it is nearest to in the pixels that are retained.

    Over those, the squared distance to the mean m of a class is that of the copy to zero less x m - m**2 / 2, summed:
    which is linear in what the model sees of a pixel x, the pair (x, 1 - x), and zero where it sees (0, 0).
    """
    data = datasets.load("digits", "train")
    assert isinstance(data.images, ArrayImages)
    pixels = data.images.pixels.reshape(len(data.labels), -1) / 255
    means = torch.from_numpy(np.stack([pixels[data.labels == label].mean(axis=0) for label in range(10)])).float()
    linear = torch.nn.Linear(2 * means.shape[1], 10, bias=False)
    linear.weight.data = torch.cat((means - means.square() / 2, -means.square() / 2), dim=1)
    return Smoothed(torch.nn.Sequential(torch.nn.Flatten(), linear), Uniform(means.shape[1], keep), classes=10)
