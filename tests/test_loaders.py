"""A loader is certified as the tensor of all its inputs would be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

import sparsecert as sc
from tests.helpers import Digits

SMALL: dict[str, Any] = {"n0": 50, "n": 200, "seed": 3}


@pytest.fixture(scope="module")
def g(trained: Path) -> sc.Smoothed:
    return sc.Smoothed.load(trained)


def _assert_same(found: sc.Certifications, whole: sc.Certifications) -> None:
    assert found.labels.tolist() == whole.labels.tolist()
    assert found.radii.tolist() == whole.radii.tolist()
    assert np.array_equal(found.counts, whole.counts)
    assert np.array_equal(found.samples, whole.samples)


@pytest.mark.parametrize("size", [1, 7, 20])
def test_batches_of_any_size_are_the_tensor(g: sc.Smoothed, digits: Digits, size: int) -> None:
    images, labels = digits
    found = g.certify(DataLoader(TensorDataset(images, labels), batch_size=size), **SMALL)
    _assert_same(found, g.certify(images, **SMALL))
    assert found.truth is not None
    assert found.truth.tolist() == labels.tolist()
    right = found.certified(found.truth, 0)
    assert right.tolist() == ((found.labels == labels.numpy()) & (found.radii >= 0)).tolist()


def test_any_iterable_with_or_without_labels(g: sc.Smoothed, digits: Digits) -> None:
    images, labels = digits
    numbers = [5, 9, 2, 7]
    whole = g.certify(images[:4], examples=numbers, **SMALL)
    pairs = ((images[i : i + 2], labels[i : i + 2].tolist()) for i in (0, 2))
    found = g.certify(pairs, examples=numbers, **SMALL)
    _assert_same(found, whole)
    assert found.truth is not None
    assert found.truth.tolist() == labels[:4].tolist()
    bare = g.certify([images[:2], images[2:4]], examples=numbers, **SMALL)
    _assert_same(bare, whole)
    assert bare.truth is whole.truth is None


@pytest.mark.parametrize("kind", ["a list of pairs", "a generator of pairs", "a torch Dataset", "a bare Dataset"])
def test_single_inputs_are_batched(g: sc.Smoothed, digits: Digits, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparsecert.loaders.SINGLES", 8)
    images, labels = digits
    pairs = list(zip(images, labels.tolist(), strict=True))
    found = g.certify(
        {
            "a list of pairs": pairs,
            "a generator of pairs": ((image.numpy(), label) for image, label in pairs),
            "a torch Dataset": TensorDataset(images, labels),
            "a bare Dataset": Bare(images),
        }[kind],
        **SMALL,
    )
    _assert_same(found, g.certify(images, **SMALL))
    assert (None if found.truth is None else found.truth.tolist()) == (None if "bare" in kind else labels.tolist())


class Bare(Dataset[torch.Tensor]):
    """Images without labels."""

    def __init__(self, images: torch.Tensor) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, place: int) -> torch.Tensor:
        return self.images[place]


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([], "at least one batch"),
        ([3], "or batches that are tensors or"),
        ([(torch.zeros(2, 1, 8, 8), [1])], r"labels must be one per input \(2\)"),
        ([(torch.zeros(1, 8, 8), 1), (torch.zeros(1, 9, 9), 1)], "inputs must be tensors of one shape"),
        ([(torch.zeros(1, 8, 8), "cat")], "labels must be numbers of classes"),
        ([(torch.zeros(1, 1, 8, 8), ["cat"])], "labels must be numbers of classes"),
    ],
)
def test_what_is_no_batch_is_refused(g: sc.Smoothed, batches: Any, message: str) -> None:
    with pytest.raises(sc.InputError, match=message):
        g.certify(batches, **SMALL)


@pytest.mark.parametrize("numbers", [[1], [1, 2, 3, 4, 5]])
def test_examples_number_every_input(g: sc.Smoothed, digits: Digits, numbers: list[int]) -> None:
    with pytest.raises(sc.InputError, match="examples must number each of the"):
        g.certify([digits[0][:2], digits[0][2:4]], examples=numbers, **SMALL)
