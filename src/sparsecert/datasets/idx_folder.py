"""A folder of IDX files in MNIST's layout, of any data set: Fashion-MNIST, KMNIST, EMNIST, one's own."""

from __future__ import annotations

import re
from pathlib import Path

from sparsecert.datasets import idx
from sparsecert.datasets.arrays import EITHER, Arrays, Pair
from sparsecert.datasets.numpy_files import class_file
from sparsecert.errors import InputError

IMAGES = re.compile(r"(?P<set>.*)images(?P<dot>[-.])idx3-ubyte(\.gz)?")
SPLIT_WORDS = {"train": ("train",), "test": ("t10k", "test", "val")}
REMEDY = "replace it"
RAW = "raw"  # where torchvision puts the files


def has_idx(folder: Path) -> bool:
    """Whether the folder, or `raw` in it, holds images in IDX files."""
    return bool(_image_files(folder))


def read_idx(folder: Path) -> Arrays:
    """The images and labels of each split: train-images-idx3-ubyte with train-labels-idx1-ubyte, t10k- or test-."""
    splits: dict[str, Pair] = {}
    for split, images in _image_files(folder).items():
        found = IMAGES.fullmatch(images.name)
        assert found is not None
        labels = images.with_name(f"{found['set']}labels{found['dot']}idx1-ubyte")
        gzipped = labels.with_name(f"{labels.name}.gz")
        if not labels.is_file() and not gzipped.is_file():
            raise InputError(f"{images} needs its labels beside it, in {labels.name}")
        pixels = idx.read(images, 3, REMEDY)
        splits[split] = pixels, idx.read(labels if labels.is_file() else gzipped, 1, REMEDY)
    return Arrays(splits, class_file(folder) or class_file(folder / RAW))


def _image_files(folder: Path) -> dict[str, Path]:
    """The file of each split; a plain one before its gzipped copy."""
    for place in (folder, folder / RAW):
        files: dict[str, Path] = {}
        for file in sorted(place.glob("*images[-.]idx3-ubyte*")) if place.is_dir() else ():
            if IMAGES.fullmatch(file.name) is None:
                continue
            split = next((s for s, words in SPLIT_WORDS.items() if any(word in file.name for word in words)), EITHER)
            earlier = files.setdefault(split, file)
            if earlier.name.removesuffix(".gz") != file.name.removesuffix(".gz"):
                raise InputError(f"{place} holds several sets ({earlier.name}, {file.name}); give each its own folder")
        if files:
            return files
    return {}
