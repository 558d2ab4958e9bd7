from __future__ import annotations

import numpy as np
import pytest

from sparsecert.datasets import digits, load


def test_splits_are_1297_and_500_images_of_8_by_8() -> None:
    train, test = load("digits", "train"), load("digits")
    assert (len(train), len(test)) == (1297, 500)
    assert train.images.shape == test.images.shape == (1, 8, 8)
    assert train.classes == tuple("0123456789")
    assert np.bincount(np.concatenate([train.labels, test.labels])).tolist() == [
        178, 182, 177, 183, 181, 182, 181, 179, 174, 180,
    ]  # fmt: skip


def test_pixels_are_the_original_sixteenths() -> None:
    first = load("digits", "train").images.batch([0])[0, 0].astype(float) * 16 / 255
    assert np.rint(first[:2]).tolist() == [[0, 0, 5, 13, 9, 1, 0, 0], [0, 0, 13, 15, 10, 15, 5, 0]]
    assert np.abs(first - np.rint(first)).max() <= 0.5 * 16 / 255


def test_constants_are_the_training_pixels() -> None:
    train = load("digits", "train")
    pixels = train.images.batch(train.spaced_indices(None)) / 255
    assert abs(pixels.mean() - digits.MEAN[0]) < 1e-4
    assert abs(pixels.std() - digits.STD[0]) < 1e-4


def test_same_as_scikit_learn() -> None:
    original = pytest.importorskip("sklearn.datasets").load_digits()
    ours = [load("digits", split) for split in ("train", "test")]
    pixels = np.concatenate([d.images.batch(d.spaced_indices(None))[:, 0] for d in ours])
    assert np.array_equal(np.rint(pixels * (16 / 255)), original.images)
    assert np.array_equal(np.concatenate([d.labels for d in ours]), original.target)
