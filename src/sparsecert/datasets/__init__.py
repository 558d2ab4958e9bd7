"""Data sets by name: `load("mnist")`; none of this needs torch."""

from __future__ import annotations

import os
from pathlib import Path

from sparsecert.datasets.dataset import SPLITS, ArrayImages, Dataset, Images
from sparsecert.datasets.location import data_folder, not_found
from sparsecert.errors import InputError
from sparsecert.progress import OnProgress

__all__ = ["NAMES", "SPLITS", "ArrayImages", "Dataset", "Images", "data_folder", "load", "splits_of"]

IN_MEMORY = ("digits", "mnist-sample", "mnist", "cifar10")
NAMES = (*IN_MEMORY, "imagenette", "imagenet")


def load(
    name: str,
    split: str = "test",
    data_dir: str | Path | None = None,
    skip_bad: bool = False,
    on_progress: OnProgress | None = None,
) -> Dataset:
    """One split, "train" or "test", of a data set in NAMES or of a folder in ImageNet layout given by its path.

    Named data sets are looked for in `data_dir`, else in the folder that SPARSECERT_DATA names, else in `data`. With
    `skip_bad` the files of an image folder that cannot be decoded are left out and named in `skipped`; to find them
    every file is decoded once; `on_progress` is called with (files done, files in all).
    """
    root = data_folder(data_dir)
    if name == "digits":
        from sparsecert.datasets import digits

        return digits.load(split)
    if name in ("mnist", "mnist-sample"):
        from sparsecert.datasets import mnist

        return mnist.load(split, root) if name == "mnist" else mnist.load_sample(split)
    if name == "cifar10":
        from sparsecert.datasets import cifar10

        return cifar10.load(split, root)

    from sparsecert.datasets import folder

    data = folder.load(_image_folder(name, root), split, name=name)
    if not skip_bad:
        return data
    from sparsecert.datasets.bad_files import drop_bad_files

    return drop_bad_files(data, on_progress)


def splits_of(name: str, data_dir: str | Path | None = None) -> tuple[str, ...]:
    """The splits that a data set has: of an image folder, those whose folder is there, and at least one."""
    if name in IN_MEMORY:
        return ("test",) if name == "mnist-sample" else SPLITS
    from sparsecert.datasets import folder

    root = _image_folder(name, data_folder(data_dir))
    return tuple(split for split in SPLITS if folder.has_split(root, split)) or SPLITS


def _image_folder(name: str, root: Path) -> Path:
    if name in NAMES:
        if (root / name).is_dir():
            return root / name
        if name == "imagenet":
            raise InputError(
                f"imagenet was not found in {root}; its licence forbids a download, so arrange your copy as "
                f"{root / name}/{{train,val}}/<class folder>/*.JPEG or point --data-dir or SPARSECERT_DATA at it"
            )
        raise not_found(name, root)
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    if "/" in name or os.sep in name:
        raise InputError(f"{name} is not a folder; give one in the layout {{train,val}}/<class folder>/*.JPEG")
    raise InputError(f"data set must be one of {', '.join(NAMES)} or the path of an image folder, got {name!r}")
