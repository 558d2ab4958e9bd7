"""Data sets by name: `load("mnist")`; none of this needs torch."""

from __future__ import annotations

import os
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
) -> Dataset:
    """One split, "train" or "test", of a data set of DATASETS or of a folder in ImageNet layout given by its path.

    Named data sets are looked for in `data_dir`, else in the folder that SPARSECERT_DATA names, else in `data`. With
    `skip_bad` the files of an image folder that cannot be decoded are left out and named in `skipped`; to find them
    every file is decoded once; `on_progress` is called with (files done, files in all).
    """
    if name in DATASETS:
        data = DATASETS[name].load(split, data_folder(data_dir))
    else:
        from sparsecert.datasets import folder

        data = folder.load(_image_folder(name), split, name=name)
    if not skip_bad or in_memory(name):
        return data
    from sparsecert.datasets.bad_files import drop_bad_files

    return drop_bad_files(data, on_progress)


def load_training(name: str, data_dir: str | Path | None = None) -> Dataset:
    """The training images of a data set; of a sample, those of the data set that it is part of."""
    whole = DATASETS[name].part_of if name in DATASETS else ""
    return load(whole or name, "train", data_dir)


def shipped_like(name: str) -> str | None:
    """The data set with such images that ships with the package: this one or a part of it, if either does."""
    return next((one for one, entry in DATASETS.items() if entry.ships and name in (one, entry.part_of)), None)


def in_memory(name: str) -> bool:
    """Whether the images are held in memory, not decoded from a folder of image files when they are asked for."""
    return name in DATASETS and not DATASETS[name].folder


def splits_of(name: str, data_dir: str | Path | None = None) -> tuple[str, ...]:
    """The splits that a data set has: of an image folder, those whose folder is there, and at least one."""
    if in_memory(name):
        return DATASETS[name].splits
    from sparsecert.datasets import folder

    root = data_folder(data_dir) / DATASETS[name].folder if name in DATASETS else _image_folder(name)
    return tuple(split for split in SPLITS if folder.has_split(root, split)) or SPLITS


def _image_folder(name: str) -> Path:
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    if "/" in name or os.sep in name:
        raise InputError(f"{name} is not a folder; give one in the layout {{train,val}}/<class folder>/*.JPEG")
    raise InputError(f"data set must be one of {', '.join(DATASETS)} or the path of an image folder, got {name!r}")
