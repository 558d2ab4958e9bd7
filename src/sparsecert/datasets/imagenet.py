"""ImageNet (ILSVRC 2012), from a copy of the user's own: its licence forbids a download."""

from __future__ import annotations

from pathlib import Path

from sparsecert.datasets import folder
from sparsecert.datasets.entry import DatasetEntry
from sparsecert.errors import InputError
from sparsecert.inputs.images import Dataset
from sparsecert.registry import DATASETS


def load(split: str, data_dir: Path) -> Dataset:
    """One split, from `data_dir`/imagenet."""
    root = data_dir / "imagenet"
    if not root.is_dir():
        raise InputError(
            f"imagenet was not found in {data_dir}; its licence forbids a download, so arrange your copy as "
            f"{root}/{{train,val}}/<class folder>/*.JPEG or point --data-dir or SPARSECERT_DATA at it"
        )
    return folder.load(root, split, name="imagenet")


OBTAIN = (
    "its licence asks every user to register at https://image-net.org; arrange your copy as "
    "{data_dir}/imagenet/{{train,val}}/<class folder>/*.JPEG"
)
DATASETS.register("imagenet")(DatasetEntry(load, obtain=OBTAIN, folder="imagenet"))
