"""MNIST: handwritten digits, 28 x 28, from its four IDX files, and the sample that ships with the package."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from sparsecert.datasets import idx
from sparsecert.datasets.entry import DatasetEntry, RemoteFile, check_split
from sparsecert.datasets.location import not_found, redownload_hint
from sparsecert.errors import InputError
from sparsecert.inputs.images import ArrayImages, Dataset
from sparsecert.registry import DATASETS

SAMPLE = Path(__file__).parent / "builtin"
FOLDERS = ("MNIST/raw", "mnist", ".")
PREFIX = {"train": "train", "test": "t10k"}
MEAN = (0.13066,)
STD = (0.30811,)


def load(split: str, data_dir: Path) -> Dataset:
    """One split of MNIST, from the first of `MNIST/raw`, `mnist` and `data_dir` itself that holds both its files."""
    check_split(split)
    images_path, labels_path = _find_files(split, data_dir)
    data = _read("mnist", split, images_path, labels_path, redownload_hint("mnist"))
    return replace(data, where=images_path.parent)


def load_sample(split: str) -> Dataset:
    """Every hundredth test image, 100 in all; ships with the package."""
    check_split(split)
    if split != "test":
        raise InputError("mnist-sample has test images only; for training get the whole set: sparsecert data get mnist")
    images_path, labels_path = (SAMPLE / f"mnist-sample-{kind}-ubyte.gz" for kind in ("images-idx3", "labels-idx1"))
    return _read("mnist-sample", split, images_path, labels_path, "reinstall sparsecert")


def _read(name: str, split: str, images_path: Path, labels_path: Path, remedy: str) -> Dataset:
    images, labels = idx.read(images_path, 3, remedy), idx.read(labels_path, 1, remedy)
    if images.shape[1:] != (28, 28):
        raise InputError(f"{images_path} must hold 28 x 28 images, got {images.shape}; {remedy}")
    if len(images) != len(labels) or labels.max() > 9:
        raise InputError(
            f"{labels_path} must hold {len(images)} labels from 0 to 9, got {len(labels)} up to {labels.max()}; "
            f"{remedy}"
        )
    return Dataset(
        name=name,
        split=split,
        images=ArrayImages(images[:, None]),
        labels=labels.astype(np.int64),
        classes=tuple("0123456789"),
        mean=MEAN,
        std=STD,
    )


def _find_files(split: str, data_dir: Path) -> tuple[Path, Path]:
    for folder in FOLDERS:
        images = _plain_or_gzip(data_dir / folder / f"{PREFIX[split]}-images-idx3-ubyte")
        labels = _plain_or_gzip(data_dir / folder / f"{PREFIX[split]}-labels-idx1-ubyte")
        if images and labels:
            return images, labels
    raise not_found("mnist", data_dir)


def _plain_or_gzip(plain: Path) -> Path | None:
    return next((path for path in (plain, plain.with_name(plain.name + ".gz")) if path.is_file()), None)


FILES = {
    "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
}
MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist"
SOURCES = tuple(RemoteFile(f"{MIRROR}/{file}", md5, f"MNIST/raw/{file}") for file, md5 in FILES.items())
FINGERPRINTS = {
    "train": "f33b5534de2047059845a16ad7a2c346f99ea77e36d79b200a0230c7088225de",
    "test": "6fe8c60942b360707c4affb208bb2ca8c15860889f792d48cc13f161d0dcd205",
}
DATASETS.register("mnist")(
    DatasetEntry(load, recipe="paper-mnist", sources=SOURCES, title="MNIST", fingerprints=FINGERPRINTS)
)
DATASETS.register("mnist-sample")(
    DatasetEntry(
        lambda split, _: load_sample(split), splits=("test",), recipe="paper-mnist", ships=True, part_of="mnist"
    )
)
