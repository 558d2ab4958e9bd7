from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sparsecert.datasets import cifar10, load
from sparsecert.errors import InputError


def write_batch(path: Path, label: int = 0, extra: int = 0) -> None:
    """A batch of zeros, sparse on disk, whose record 3 has `label` and pixel bytes 0, 1, 2, ..."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as out:
        out.seek(3 * 3073)
        out.write(bytes((label,)) + (np.arange(3072) % 251).astype(np.uint8).tobytes())
        out.truncate(10_000 * 3073 + extra)


@pytest.mark.parametrize("folder", ["cifar-10-batches-bin", "."])
def test_records_are_label_then_planes(tmp_path: Path, folder: str) -> None:
    write_batch(tmp_path / folder / "test_batch.bin", label=9)
    data = load("cifar10", "test", tmp_path)
    assert len(data) == 10_000
    assert data.labels[:5].tolist() == [0, 0, 0, 9, 0]
    assert data.classes[9] == "truck"
    image = data.images.batch([3])[0]
    assert image.shape == data.images.shape == (3, 32, 32)
    assert image[1, 2, 5] == (1024 + 2 * 32 + 5) % 251


def test_train_is_the_five_batches_in_order(tmp_path: Path) -> None:
    for i in range(1, 6):
        write_batch(tmp_path / f"data_batch_{i}.bin", label=i)
    data = load("cifar10", "train", tmp_path)
    assert len(data) == 50_000
    assert data.labels[3::10_000].tolist() == [1, 2, 3, 4, 5]
    (tmp_path / "data_batch_4.bin").unlink()
    with pytest.raises(InputError, match=r"data_batch_4\.bin is missing; delete .* and run `sparsecert data get"):
        load("cifar10", "train", tmp_path)


@pytest.mark.parametrize(
    ("label", "extra", "message"),
    [
        (0, -1, "must be 30730000 bytes long, got 30729999"),
        (0, 1, "must be 30730000 bytes long, got 30730001"),
        (10, 0, "must hold labels from 0 to 9, got 10"),
    ],
)
def test_damage_is_refused(tmp_path: Path, label: int, extra: int, message: str) -> None:
    write_batch(tmp_path / "test_batch.bin", label, extra)
    with pytest.raises(InputError, match=rf"test_batch\.bin {message}; delete it and run `sparsecert data"):
        load("cifar10", "test", tmp_path)


def test_real_sizes_and_constants(real_data: Callable[[str], Path]) -> None:
    folder = real_data("cifar-10-batches-bin")
    test, train = load("cifar10", "test", folder), load("cifar10", "train", folder)
    assert (len(train), len(test)) == (50_000, 10_000)
    assert np.bincount(train.labels).tolist() == [5_000] * 10
    assert np.bincount(test.labels).tolist() == [1_000] * 10
    assert [test.classes[k] for k in test.labels[:3]] == ["cat", "ship", "ship"]
    values = np.arange(256) / 255
    pixels = train.images.batch(train.spaced_indices(None))
    for channel in range(3):
        counts = np.bincount(pixels[:, channel].ravel(), minlength=256)
        mean = np.average(values, weights=counts)
        assert abs(mean - cifar10.MEAN[channel]) < 1e-4
        assert abs(np.sqrt(np.average((values - mean) ** 2, weights=counts)) - cifar10.STD[channel]) < 1e-4


def test_the_sample_is_every_hundredth_test_image(real_data: Callable[[str], Path]) -> None:
    whole, sample = load("cifar10", "test", real_data("cifar-10-batches-bin")), load("cifar10-sample")
    assert np.array_equal(sample.images.batch(range(100)), whole.images.batch(range(0, 10_000, 100)))
    assert sample.labels.tolist() == whole.labels[::100].tolist()


def test_the_sample_needs_no_data_folder(tmp_path: Path) -> None:
    sample = load("cifar10-sample", "test", tmp_path)
    assert (sample.name, len(sample), sample.images.shape) == ("cifar10-sample", 100, (3, 32, 32))
    assert set(sample.labels.tolist()) == set(range(10))
    assert sample.classes[sample.labels[0]] == "cat"
    with pytest.raises(InputError, match="cifar10-sample has test images only; for training get the whole set"):
        load("cifar10-sample", "train")
