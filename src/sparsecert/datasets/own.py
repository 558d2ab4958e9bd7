"""Data of one's own: what a path or `module:function` names, by looking at what is there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from sparsecert.datasets import hugging_face, idx_folder, numpy_files, torch_dataset
from sparsecert.datasets.arrays import Arrays
from sparsecert.datasets.entry import SPLITS, check_split
from sparsecert.errors import InputError
from sparsecert.inputs.images import Dataset
from sparsecert.registry import DATASETS

NUMPY = ".npz", ".npy"
LAYOUTS = "class folders in train/ and val/ or test/, IDX files, images.npy and labels.npy, or what save_to_disk wrote"


def array_reader(name: str) -> Callable[[], Arrays] | None:
    """What reads the arrays that a name stands for; None for a folder of image files. Refuses anything else."""
    path = Path(name).expanduser()
    if path.suffix.lower() in NUMPY and path.is_file():
        return partial(numpy_files.read_npz if path.suffix.lower() == ".npz" else numpy_files.read_npy, path)
    if path.is_dir():
        if hugging_face.is_saved(path):
            return partial(hugging_face.read_saved, path)
        if idx_folder.has_idx(path):
            return partial(idx_folder.read_idx, path)
        return partial(numpy_files.read_npy, path) if any(path.glob("*.npy")) else None
    if torch_dataset.is_function(name):
        return partial(torch_dataset.read_function, name)
    if path.suffix.lower() in NUMPY:
        raise InputError(f"{name} was not found; check the path")
    if "/" in name or "\\" in name:
        raise InputError(f"{name} is not a folder or an .npz file; a folder holds {LAYOUTS}")
    raise InputError(
        f"data set must be one of {', '.join(DATASETS)}, the path of a folder or an .npz file, or module:function, "
        f"got {name!r}"
    )


def load(name: str, split: str, size: int | None) -> Dataset:
    """One split; an image folder comes as files, at `size` or at the size of its images."""
    check_split(split)
    read = array_reader(name)
    if read is None:
        from sparsecert.datasets.folder_shape import load_folder

        return load_folder(Path(name).expanduser(), split, name, size)
    if size is not None:
        raise InputError(f"--resize is for folders of image files; {name} holds arrays: leave it out")
    return read().dataset(name, split)


def has_test_images(name: str) -> bool:
    """Whether there are test images that are not the training images."""
    if torch_dataset.is_function(name):
        return torch_dataset.takes_split(name)
    read = array_reader(name)
    return "test" in (splits(name) if read is None else read().splits)


def splits(name: str) -> tuple[str, ...]:
    """The splits that there are, at least one."""
    read = array_reader(name)
    if read is not None:
        return read().names()
    from sparsecert.datasets.folder import has_split

    return tuple(split for split in SPLITS if has_split(Path(name).expanduser(), split)) or SPLITS
