"""CIFAR-10: colour photographs, 32 x 32, from its official binary batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sparsecert.datasets.entry import DatasetEntry, RemoteFile, check_split
from sparsecert.datasets.location import not_found, redownload_hint
from sparsecert.errors import InputError
from sparsecert.inputs.images import ArrayImages, Dataset
from sparsecert.registry import DATASETS

FOLDERS = ("cifar-10-batches-bin", ".")
FILES = {"train": tuple(f"data_batch_{i}.bin" for i in range(1, 6)), "test": ("test_batch.bin",)}
RECORDS = 10_000
SHAPE = (3, 32, 32)
RECORD_BYTES = 1 + 3 * 32 * 32
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
MEAN = (0.49140, 0.48216, 0.44653)
STD = (0.24703, 0.24349, 0.26159)


def load(split: str, data_dir: Path) -> Dataset:
    """One split of CIFAR-10, from `data_dir`/cifar-10-batches-bin or `data_dir` itself."""
    check_split(split)
    paths = _find_files(split, data_dir)
    pixels = np.empty((len(paths) * RECORDS, *SHAPE), dtype=np.uint8)
    labels = np.empty(len(paths) * RECORDS, dtype=np.int64)
    for i, path in enumerate(paths):
        records = _read_records(path)
        part = slice(i * RECORDS, (i + 1) * RECORDS)
        labels[part] = records[:, 0]
        pixels[part] = records[:, 1:].reshape(-1, *SHAPE)
    return Dataset("cifar10", split, ArrayImages(pixels), labels, CLASSES, MEAN, STD)


def _find_files(split: str, data_dir: Path) -> list[Path]:
    for folder in FOLDERS:
        paths = [data_dir / folder / file for file in FILES[split]]
        missing = [path for path in paths if not path.is_file()]
        if not missing:
            return paths
        if len(missing) < len(paths):
            raise InputError(
                f"{missing[0]} is missing; delete {missing[0].parent} and run `sparsecert data get cifar10`"
            )
    raise not_found("cifar10", data_dir)


def _read_records(path: Path) -> NDArray[np.uint8]:
    try:
        size = path.stat().st_size
        data = np.fromfile(path, dtype=np.uint8) if size == RECORDS * RECORD_BYTES else None
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); {redownload_hint('cifar10')}") from error
    if data is None or len(data) != RECORDS * RECORD_BYTES:
        raise InputError(
            f"{path} must be {RECORDS * RECORD_BYTES} bytes long, got {size}; {redownload_hint('cifar10')}"
        )
    records = data.reshape(RECORDS, RECORD_BYTES)
    if records[:, 0].max() > 9:
        raise InputError(
            f"{path} must hold labels from 0 to 9, got {records[:, 0].max()}; {redownload_hint('cifar10')}"
        )
    return records


ARCHIVE = RemoteFile(
    url="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    md5="c32a1d4ab5d03f1284b67883e8d87530",
    path="cifar-10-binary.tar.gz",
    archive_root="cifar-10-batches-bin",
    unpacked="cifar-10-batches-bin",
)
DATASETS.register("cifar10")(DatasetEntry(load, recipe="paper-cifar10", sources=(ARCHIVE,), classes=CLASSES))
