"""Inputs to certify: images, rows of a table or texts; each kind defines its units and its batches.

Votes, runs, records, reports and the service take any `Inputs`. A new kind of input needs one class with these members
and an encoding that represents NULL.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from sparsecert.counts import UNKNOWN, Bool, Int64
from sparsecert.errors import InputError
from sparsecert.inputs.units import Units

if TYPE_CHECKING:
    import torch

__all__ = ["FileInputs", "Inputs", "Units", "draw", "held_out", "labels_at", "number_labels", "space", "to_tensor"]


class Inputs(Protocol):
    """An ordered collection of inputs of one shape, read by index."""

    @property
    def name(self) -> str: ...

    @property
    def split(self) -> str: ...

    @property
    def labels(self) -> Int64 | None:
        """The true classes; None where they are unknown."""

    @property
    def classes(self) -> tuple[str, ...]: ...

    @property
    def units(self) -> Units:
        """What of each input can be perturbed by itself: what they are called, how many, and where."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input: (channels, height, width) for an image, (columns,) for a row."""

    def __len__(self) -> int: ...

    def batch(self, indices: Sequence[int] | Int64) -> npt.NDArray[Any]:
        """The inputs at `indices` as an array, for `to_tensor`."""

    def spaced_indices(self, limit: int | None) -> Int64:
        """Indices of `limit` evenly spaced inputs; None: of all inputs to certify."""

    def random_indices(self, limit: int, seed: int) -> Int64:
        """Indices, in order, of `limit` inputs drawn without replacement."""

    def fingerprint(self) -> str:
        """A SHA-256 in hexadecimal that changes when the inputs, their labels or their order change."""

    def header_fields(self) -> dict[str, Any]:
        """More fields for a records header: plain JSON values."""


class FileInputs:
    """What rows and texts of a file have in common: `chosen` are those to certify, and the file is the fingerprint."""

    classes: tuple[str, ...]
    chosen: Int64
    sha256: str

    @property
    def units(self) -> Units:
        raise NotImplementedError

    def spaced_indices(self, limit: int | None) -> Int64:
        return self.chosen[space(len(self.chosen), limit)]

    def random_indices(self, limit: int, seed: int) -> Int64:
        return self.chosen[draw(len(self.chosen), limit, seed)]

    def fingerprint(self) -> str:
        return self.sha256

    def header_fields(self) -> dict[str, Any]:
        return {"class_names": list(self.classes), "unit": self.units.name}


def number_labels(labels: Sequence[str], classes: Sequence[str], source: str) -> Int64:
    """int64[b]: the number of each class; refuses others, which the `source` has."""
    known = {label: number for number, label in enumerate(classes)}
    if strange := sorted({*labels} - {*known}):
        raise InputError(f"the {source} has classes unknown to the model: {', '.join(strange):.200}")
    return np.array([known[label] for label in labels], dtype=np.int64)


def held_out(count: int, number: int, seed: int) -> Bool:
    """bool[count]: so many of the inputs, drawn at random, to be held out of training."""
    found = np.zeros(count, dtype=np.bool_)
    found[np.random.default_rng(seed).permutation(count)[:number]] = True
    return found


def labels_at(data: Inputs, indices: Sequence[int]) -> list[int]:
    """The true class of each of these inputs, UNKNOWN where they have none."""
    return [UNKNOWN] * len(indices) if data.labels is None else data.labels[list(indices)].tolist()


def to_tensor(array: npt.NDArray[Any]) -> torch.Tensor:
    """A batch as a model input: bytes scaled to [0, 1], floats unchanged."""
    import torch

    return torch.from_numpy(array).float() / 255 if array.dtype == np.uint8 else torch.from_numpy(array)


def space(count: int, limit: int | None) -> Int64:
    """Positions of `limit` of `count` inputs, evenly spaced: floor(i n / limit); all of them when None or >= n."""
    if limit is not None and limit < 1:
        raise InputError(f"limit must be at least 1, or None for every input, got {limit}")
    if limit is None or limit >= count:
        return np.arange(count, dtype=np.int64)
    return np.arange(limit, dtype=np.int64) * count // limit


def draw(count: int, limit: int, seed: int) -> Int64:
    """Positions, in order, of `limit` of `count` inputs drawn without replacement; all of them when >= count.

    Each input gets a 64-bit number from NumPy's Philox, keyed by the SHA-256 of "seed/inputs"; the smallest are taken.
    The result is the same on every machine and independent of the masks; a larger sample contains every smaller one.
    """
    if limit < 1:
        raise InputError(f"limit must be at least 1, got {limit}")
    key = int.from_bytes(hashlib.sha256(f"{seed}/inputs".encode()).digest()[:16], "little")
    numbers = np.random.Philox(key=key).random_raw(count)
    chosen: Int64 = np.sort(np.argsort(numbers, kind="stable")[:limit]).astype(np.int64)
    return chosen
