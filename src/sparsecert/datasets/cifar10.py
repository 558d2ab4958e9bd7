"""CIFAR-10: colour photographs, 32 x 32, from its binary batches, and the sample that ships with the package."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sparsecert.datasets.entry import DatasetEntry, RemoteFile, check_split
from sparsecert.datasets.location import not_found, redownload_hint
from sparsecert.errors import InputError
from sparsecert.inputs.images import ArrayImages, Dataset
from sparsecert.registry import DATASETS

SAMPLE = Path(__file__).parent / "builtin" / "cifar10-sample.bin"
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
    paths, hint = _find_files(split, data_dir), redownload_hint("cifar10")
    data = _dataset("cifar10", split, [_read_records(path, RECORDS, hint) for path in paths])
    return replace(data, where=paths[0].parent)


def load_sample(split: str) -> Dataset:
    """Every hundredth test image, 100 in all; ships with the package."""
    check_split(split)
    if split != "test":
        raise InputError(
            "cifar10-sample has test images only; for training get the whole set: sparsecert data get cifar10"
        )
    return _dataset("cifar10-sample", split, [_read_records(SAMPLE, 100, "reinstall sparsecert")])


def _dataset(name: str, split: str, batches: list[NDArray[np.uint8]]) -> Dataset:
    labels = np.concatenate([records[:, 0] for records in batches]).astype(np.int64)
    pixels = np.concatenate([records[:, 1:].reshape(-1, *SHAPE) for records in batches])
    return Dataset(name, split, ArrayImages(pixels), labels, CLASSES, MEAN, STD)


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


def _read_records(path: Path, count: int, remedy: str) -> NDArray[np.uint8]:
    """uint8[count, 1 + 3072]: label and pixels of each image."""
    try:
        size = path.stat().st_size
        data = np.fromfile(path, dtype=np.uint8) if size == count * RECORD_BYTES else None
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); {remedy}") from error
    if data is None or len(data) != count * RECORD_BYTES:
        raise InputError(f"{path} must be {count * RECORD_BYTES} bytes long, got {size}; {remedy}")
    records = data.reshape(count, RECORD_BYTES)
    if records[:, 0].max() > 9:
        raise InputError(f"{path} must hold labels from 0 to 9, got {records[:, 0].max()}; {remedy}")
    return records


ARCHIVE = RemoteFile(
    url="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    md5="c32a1d4ab5d03f1284b67883e8d87530",
    path="cifar-10-binary.tar.gz",
    archive_root="cifar-10-batches-bin",
    unpacked="cifar-10-batches-bin",
)
FINGERPRINTS = {
    "train": "2bd9bfb38df7a949995d89ca8b7ad506edc799339796645b76c2b8e63c05da9f",
    "test": "9488053ff72725fb1b2dcce280756a3c3e39238c7cf4b017d3084c739500d86d",
}
DATASETS.register("cifar10")(
    DatasetEntry(
        load,
        recipe="paper-cifar10",
        sources=(ARCHIVE,),
        classes=CLASSES,
        title="CIFAR-10",
        fingerprints=FINGERPRINTS,
    )
)
DATASETS.register("cifar10-sample")(
    DatasetEntry(
        lambda split, _: load_sample(split),
        splits=("test",),
        recipe="paper-cifar10",
        ships=True,
        part_of="cifar10",
        classes=CLASSES,
    )
)
