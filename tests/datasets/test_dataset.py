from __future__ import annotations

import hashlib
from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from sparsecert.datasets import ArrayImages, Dataset
from sparsecert.errors import InputError


def dataset(n: int = 10, **changes: object) -> Dataset:
    pixels = np.arange(n * 12, dtype=np.uint8).reshape(n, 3, 2, 2)
    fields: dict[str, object] = {
        "name": "made",
        "split": "test",
        "images": ArrayImages(pixels),
        "labels": np.arange(n, dtype=np.int64) % 2,
        "classes": ("even", "odd"),
        "mean": (0.5, 0.5, 0.5),
        "std": (1.0, 1.0, 1.0),
    }
    return Dataset(**{**fields, **changes})  # type: ignore[arg-type]


def test_batch_keeps_the_order_asked_for_and_is_a_copy() -> None:
    images = dataset().images
    batch = images.batch([7, 0, 7])
    assert batch.dtype == np.uint8
    assert batch.shape == (3, *images.shape) == (3, 3, 2, 2)
    assert batch[:, 0, 0, 0].tolist() == [84, 0, 84]
    batch[:] = 0
    assert images.batch(np.array([7]))[0, 0, 0, 0] == 84
    assert images.batch([]).shape == (0, 3, 2, 2)


@pytest.mark.parametrize("index", [-1, 10])
def test_indices_outside_are_refused(index: int) -> None:
    with pytest.raises(InputError, match=rf"indices must be between 0 and 9, got {index}"):
        dataset().images.batch([index])


@pytest.mark.parametrize("n", [1, 7, 10, 97])
@pytest.mark.parametrize("limit", [1, 2, 3, 7, 10, 96])
def test_spaced_is_floor_of_i_n_over_limit(n: int, limit: int) -> None:
    indices = dataset(n).spaced_indices(limit)
    assert indices.dtype == np.int64
    assert indices.tolist() == (list(range(n)) if limit >= n else [i * n // limit for i in range(limit)])


def test_spaced_none_is_everything() -> None:
    assert dataset(10).spaced_indices(None).tolist() == list(range(10))


@pytest.mark.parametrize("limit", [0, -3])
def test_spaced_refuses_less_than_one(limit: int) -> None:
    with pytest.raises(InputError, match=f"limit must be at least 1.*got {limit}"):
        dataset().spaced_indices(limit)


@pytest.mark.parametrize("limit", [1, 4, 9, 10, 12])
def test_drawn_is_a_subset_in_order_and_a_larger_one_holds_it(limit: int) -> None:
    chosen = dataset(10).random_indices(limit, seed=5)
    assert chosen.dtype == np.int64
    assert chosen.tolist() == sorted(set(chosen.tolist()))
    assert len(chosen) == min(limit, 10)
    assert set(chosen) <= set(dataset(10).random_indices(limit + 1, seed=5))


def test_drawn_takes_the_smallest_of_the_documented_numbers() -> None:
    key = int.from_bytes(hashlib.sha256(b"7/inputs").digest()[:16], "little")
    numbers = np.random.Philox(key=key).random_raw(97).tolist()
    smallest = sorted(range(97), key=numbers.__getitem__)[:20]
    assert dataset(97).random_indices(20, seed=7).tolist() == sorted(smallest)


def test_drawn_subsets_are_equally_likely() -> None:
    """Chi-squared over the ten pairs out of five inputs; its 99.9 % quantile with nine degrees of freedom is 27.9."""
    pairs = Counter(tuple(dataset(5).random_indices(2, seed).tolist()) for seed in range(3_000))
    assert sorted(pairs) == list(combinations(range(5), 2))
    assert sum((count - 300) ** 2 / 300 for count in pairs.values()) < 27.9


def test_drawn_refuses_less_than_one() -> None:
    with pytest.raises(InputError, match="limit must be at least 1, got 0"):
        dataset().random_indices(0, seed=0)


def test_fingerprint_is_the_documented_hash() -> None:
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 3, 2, 2)
    images = hashlib.sha256(b"(2, 3, 2, 2)" + pixels.tobytes()).hexdigest()
    assert ArrayImages(pixels).fingerprint() == images
    both = hashlib.sha256(images.encode() + np.array([0, 1], dtype="<i8").tobytes()).hexdigest()
    assert dataset(2, images=ArrayImages(pixels)).fingerprint() == both


def test_fingerprint_depends_on_pixels_shape_and_labels_and_not_on_strides() -> None:
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 3, 2, 2)
    changed = pixels.copy()
    changed[1, 2, 1, 1] += 1
    prints = {ArrayImages(p).fingerprint() for p in (pixels, changed, pixels.reshape(2, 3, 1, 4))}
    assert len(prints) == 3
    strided = np.ascontiguousarray(pixels[..., ::-1])[..., ::-1]
    assert ArrayImages(strided).fingerprint() == ArrayImages(pixels).fingerprint()
    assert dataset(labels=np.zeros(10, dtype=np.int64)).fingerprint() != dataset().fingerprint()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": np.zeros(9, dtype=np.int64)}, r"labels must be one per image \(10\), got 9"),
        ({"labels": np.full(10, 2, dtype=np.int64)}, "labels must be between 0 and 1, got 2 to 2"),
        ({"labels": np.full(10, -1, dtype=np.int64)}, "labels must be between 0 and 1, got -1 to -1"),
        ({"labels": np.zeros(10, dtype=np.int32)}, "labels must be an int64 array"),
        ({"mean": (0.5,)}, r"mean must have one value per channel \(3\)"),
        ({"std": (0.5,)}, r"std must have one value per channel \(3\)"),
    ],
)
def test_inconsistent_fields_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        dataset(**changes)


@pytest.mark.parametrize("pixels", [np.zeros((2, 3, 2, 2)), np.zeros((2, 3, 2), dtype=np.uint8)])
def test_pixels_must_be_bytes_in_four_dimensions(pixels: np.ndarray) -> None:
    with pytest.raises(InputError, match="pixels must be a uint8 array"):
        ArrayImages(pixels)
