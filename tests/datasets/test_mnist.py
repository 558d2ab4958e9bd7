from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sparsecert.datasets import load, mnist
from sparsecert.errors import InputError

from .made import write_mnist

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 28, 28), dtype=np.uint8)
LABELS = np.array([7, 2, 1, 0, 4], dtype=np.uint8)


@pytest.mark.parametrize("folder", ["MNIST/raw", "mnist", "."])
@pytest.mark.parametrize("compress", [False, True])
def test_found_in_each_place_plain_or_gzip(tmp_path: Path, folder: str, compress: bool) -> None:
    write_mnist(tmp_path / folder, "t10k", IMAGES, LABELS)
    if compress:
        for file in list((tmp_path / folder).glob("*ubyte")):
            file.with_name(file.name + ".gz").write_bytes(gzip.compress(file.read_bytes()))
            file.unlink()
    data = load("mnist", "test", tmp_path)
    assert np.array_equal(data.images.batch(range(5)), IMAGES[:, None])
    assert data.labels.tolist() == LABELS.tolist()
    assert (data.name, data.split, data.mean, data.std) == ("mnist", "test", mnist.MEAN, mnist.STD)


def test_labels_missing_counts_as_not_found(tmp_path: Path) -> None:
    write_mnist(tmp_path, "train", IMAGES, LABELS)
    (tmp_path / "train-labels-idx1-ubyte").unlink()
    with pytest.raises(InputError, match="mnist was not found in"):
        load("mnist", "train", tmp_path)


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (IMAGES[:, :14], LABELS, "images-idx3-ubyte must hold 28 x 28 images"),
        (IMAGES, LABELS[:4], "labels-idx1-ubyte must hold 5 labels from 0 to 9, got 4 up to 7"),
        (IMAGES, LABELS + 3, "labels-idx1-ubyte must hold 5 labels from 0 to 9, got 5 up to 10"),
    ],
)
def test_wrong_content_is_refused(tmp_path: Path, images: np.ndarray, labels: np.ndarray, message: str) -> None:
    write_mnist(tmp_path, "t10k", images, labels)
    with pytest.raises(InputError, match=f"{message}.*delete it and run `sparsecert data get mnist`"):
        load("mnist", "test", tmp_path)


def test_real_sizes_and_labels(real_data: Callable[[str], Path]) -> None:
    folder = real_data("MNIST")
    test, train = load("mnist", "test", folder), load("mnist", "train", folder)
    assert (len(train), len(test)) == (60_000, 10_000)
    assert test.labels[0] == 7
    assert np.bincount(test.labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    pixels = train.images.batch(train.spaced_indices(None))
    counts = np.bincount(pixels.ravel(), minlength=256)
    values = np.arange(256) / 255
    mean = np.average(values, weights=counts)
    assert abs(mean - mnist.MEAN[0]) < 1e-4
    assert abs(np.sqrt(np.average((values - mean) ** 2, weights=counts)) - mnist.STD[0]) < 1e-4


def test_the_sample_is_every_hundredth_test_image(real_data: Callable[[str], Path]) -> None:
    whole, sample = load("mnist", "test", real_data("MNIST")), load("mnist-sample")
    assert np.array_equal(sample.images.batch(range(100)), whole.images.batch(range(0, 10_000, 100)))
    assert sample.labels.tolist() == whole.labels[::100].tolist()


def test_the_sample_needs_no_data_folder(tmp_path: Path) -> None:
    sample = load("mnist-sample", "test", tmp_path)
    assert (sample.name, len(sample), sample.images.shape) == ("mnist-sample", 100, (1, 28, 28))
    assert set(sample.labels.tolist()) == set(range(10))
    with pytest.raises(InputError, match="mnist-sample has test images only; for training get the whole set"):
        load("mnist-sample", "train")
