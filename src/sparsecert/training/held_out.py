"""Training images held out to compare settings by, so that nothing is chosen on the test set."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sparsecert.datasets import ArrayImages, Dataset
from sparsecert.datasets.folder import FolderImages
from sparsecert.errors import InputError
from sparsecert.inputs.images import Indices
from sparsecert.registry import DATASETS

MOST = 5_000  # images held out of a known data set
ONE_IN = 5


def split(data: Dataset) -> tuple[Dataset, Dataset]:
    """The training images to train on, and those held out.

    Of a known data set in memory, which is shuffled, the last 5,000 are held out, or the last fifth of fewer. Of any
    other, every fifth: it may be sorted by class.
    """
    if len(data) < ONE_IN:
        raise InputError(f"{data.name} must have at least {ONE_IN} training images to hold some out, got {len(data)}")
    every = np.arange(len(data))
    if data.name in DATASETS and not isinstance(data.images, FolderImages):
        held = every >= len(data) - min(MOST, len(data) // ONE_IN)
    else:
        held = every % ONE_IN == 0
    return part(data, every[~held]), part(data, every[held])


def part(data: Dataset, indices: Indices) -> Dataset:
    """These images alone."""
    labels = data.labels[indices]
    if isinstance(data.images, FolderImages):
        files = tuple(data.images.files[index] for index in indices)
        return replace(data, images=replace(data.images, files=files), labels=labels)
    return replace(data, images=ArrayImages(data.images.batch(indices)), labels=labels)
