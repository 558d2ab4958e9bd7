"""Data sets by name: `load("mnist")`; none of this needs torch."""

from __future__ import annotations

from pathlib import Path

from sparsecert.datasets.entry import SPLITS, DatasetEntry, RemoteFile
from sparsecert.datasets.location import data_folder
from sparsecert.errors import InputError
from sparsecert.inputs.images import ArrayImages, Dataset, Images
from sparsecert.progress import OnProgress, ignore
from sparsecert.registry import DATASETS

__all__ = [
    "DATASETS",
    "SPLITS",
    "ArrayImages",
    "Dataset",
    "DatasetEntry",
    "Images",
    "RemoteFile",
    "data_folder",
    "has_test_images",
    "in_memory",
    "load",
    "load_training",
    "shipped_like",
    "splits_of",
]


def load(
    name: str,
    split: str = "test",
    data_dir: str | Path | None = None,
    skip_bad: bool = False,
    on_progress: OnProgress = ignore,
    *,
    size: int | None = None,
) -> Dataset:
    """One split, "train" or "test", of a data set of DATASETS or of one's own, given by its path.

    A path is that of an .npz file, of images.npy with labels.npy beside it, or of a folder: class folders of images in
    train/ and in val/ or test/, IDX files in MNIST's layout, .npy files, or a Hugging Face data set saved to disk; the
    name `module:function` is of a function that returns a PyTorch Dataset. An image folder keeps the size and channels
    of its files; if they differ in size, or `size` is given, they are cropped to squares of 224 or `size` pixels.

    Named data sets are looked for in `data_dir`, else in the folder that SPARSECERT_DATA names, else in `data`. With
    `skip_bad` the files of an image folder that cannot be decoded are left out and named in `skipped`; to find them
    every file is decoded once; `on_progress` is called with (files done, files in all).
    """
    if name in DATASETS:
        if size is not None:
            raise InputError(f"--resize is for image folders given by their path; {name} has a size: leave it out")
        data = DATASETS[name].load(split, data_folder(data_dir))
    else:
        from sparsecert.datasets import own

        data = own.load(name, split, size)
    if skip_bad and not isinstance(data.images, ArrayImages):
        from sparsecert.datasets.bad_files import drop_bad_files

        data = drop_bad_files(data, on_progress)
    if name in DATASETS or isinstance(data.images, ArrayImages):
        return data
    from sparsecert.datasets.folder_shape import hold_if_small

    return hold_if_small(data)


def load_training(name: str, data_dir: str | Path | None = None) -> Dataset:
    """The training images of a data set; of a sample, those of the data set that it is part of."""
    whole = DATASETS[name].part_of if name in DATASETS else ""
    return load(whole or name, "train", data_dir)


def shipped_like(name: str) -> str | None:
    """The data set with such images that ships with the package: this one or a part of it, if either does."""
    return next((one for one, entry in DATASETS.items() if entry.ships and name in (one, entry.part_of)), None)


def in_memory(name: str) -> bool:
    """Whether the images are held in memory, not decoded from a folder of image files when they are asked for."""
    if name in DATASETS:
        return not DATASETS[name].folder
    from sparsecert.datasets import own

    return own.array_reader(name) is not None


def has_test_images(name: str) -> bool:
    """Whether a data set has test images that are not its training images."""
    if name in DATASETS:
        return "test" in DATASETS[name].splits
    from sparsecert.datasets import own

    return own.has_test_images(name)


def splits_of(name: str, data_dir: str | Path | None = None) -> tuple[str, ...]:
    """The splits that a data set has: of an image folder, those whose folder is there, and at least one."""
    if name not in DATASETS:
        from sparsecert.datasets import own

        return own.splits(name)
    entry = DATASETS[name]
    if not entry.folder:
        return entry.splits
    from sparsecert.datasets import folder

    root = data_folder(data_dir) / entry.folder
    return tuple(split for split in SPLITS if folder.has_split(root, split)) or SPLITS
