"""The UCI handwritten digits, 8 x 8, which ship with the package."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sparsecert.datasets import idx
from sparsecert.datasets.entry import DatasetEntry, check_split
from sparsecert.inputs.images import ArrayImages, Dataset
from sparsecert.registry import DATASETS

FOLDER = Path(__file__).parent / "builtin"
TRAIN_COUNT = 1297
MEAN = (0.30594,)
STD = (0.37538,)


def load(split: str) -> Dataset:
    """The first 1,297 images ("train") or the last 500 ("test"); needs no download."""
    check_split(split)
    images = idx.read(FOLDER / "digits-images-idx3-ubyte.gz", 3, "reinstall sparsecert")
    labels = idx.read(FOLDER / "digits-labels-idx1-ubyte.gz", 1, "reinstall sparsecert")
    part = slice(None, TRAIN_COUNT) if split == "train" else slice(TRAIN_COUNT, None)
    return Dataset(
        name="digits",
        split=split,
        images=ArrayImages(images[part, None]),
        labels=labels[part].astype(np.int64),
        classes=tuple("0123456789"),
        mean=MEAN,
        std=STD,
    )


DATASETS.register("digits")(DatasetEntry(lambda split, _: load(split), recipe="digits", ships=True))
