"""MNIST: handwritten digits, 28 x 28, from its four IDX files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sparsecert.datasets import idx
from sparsecert.datasets.dataset import ArrayImages, Dataset, check_split
from sparsecert.datasets.location import delete_and_get, not_found
from sparsecert.errors import InputError

FOLDERS = ("MNIST/raw", "mnist", ".")
PREFIX = {"train": "train", "test": "t10k"}
MEAN = (0.13066,)
STD = (0.30811,)


def load(split: str, data_dir: Path) -> Dataset:
    """One split of MNIST, from the first of `MNIST/raw`, `mnist` and `data_dir` itself that holds both its files."""
    check_split(split)
    images_path, labels_path = _locate(split, data_dir)
    images = idx.read(images_path, 3, delete_and_get("mnist"))
    labels = idx.read(labels_path, 1, delete_and_get("mnist"))
    if images.shape[1:] != (28, 28):
        raise InputError(f"{images_path} must hold 28 x 28 images, got {images.shape}; {delete_and_get('mnist')}")
    if len(images) != len(labels) or labels.max() > 9:
        raise InputError(
            f"{labels_path} must hold {len(images)} labels from 0 to 9, got {len(labels)} up to {labels.max()}; "
            f"{delete_and_get('mnist')}"
        )
    return Dataset(
        name="mnist",
        split=split,
        images=ArrayImages(images[:, None]),
        labels=labels.astype(np.int64),
        classes=tuple("0123456789"),
        mean=MEAN,
        std=STD,
    )


def _locate(split: str, data_dir: Path) -> tuple[Path, Path]:
    for folder in FOLDERS:
        images = _plain_or_gzip(data_dir / folder / f"{PREFIX[split]}-images-idx3-ubyte")
        labels = _plain_or_gzip(data_dir / folder / f"{PREFIX[split]}-labels-idx1-ubyte")
        if images and labels:
            return images, labels
    raise not_found("mnist", data_dir)


def _plain_or_gzip(plain: Path) -> Path | None:
    return next((path for path in (plain, plain.with_name(plain.name + ".gz")) if path.is_file()), None)
