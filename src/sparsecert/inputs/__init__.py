"""What is certified: images, rows of a table; each kind says what a unit is and how a batch is made.

Votes, runs, records, reports and the service take any `Inputs`. A new kind of input is one class with these members and
an encoding that shows it to a model with NULL in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from sparsecert.counts import Int64
from sparsecert.errors import InputError

if TYPE_CHECKING:
    import torch

__all__ = ["Inputs", "draw", "space", "to_tensor"]


class Inputs(Protocol):
    """An ordered collection of labelled inputs of one shape, read by index."""

    @property
    def name(self) -> str: ...

    @property
    def split(self) -> str: ...

    @property
    def labels(self) -> Int64: ...

    @property
    def classes(self) -> tuple[str, ...]: ...

    @property
    def unit(self) -> str:
        """What a radius counts, in the plural: pixels, features."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one input: (channels, height, width) of an image, (columns,) of a row."""

    def __len__(self) -> int: ...

    def batch(self, indices: Sequence[int] | Int64) -> npt.NDArray[Any]:
        """The inputs at `indices` as an array; `to_tensor` makes it what a model is given."""

    def spaced_indices(self, limit: int | None) -> Int64:
        """Indices of `limit` evenly spaced inputs; None: of all that are to be certified."""

    def random_indices(self, limit: int, seed: int) -> Int64:
        """Indices, in order, of `limit` inputs drawn without replacement."""

    def fingerprint(self) -> str:
        """A SHA-256 in hexadecimal that changes when the inputs, their labels or their order change."""

    def facts(self) -> dict[str, Any]:
        """What else a header says of them: plain JSON values."""


def to_tensor(array: npt.NDArray[Any]) -> torch.Tensor:
    """A batch as a model is given it: bytes as numbers in [0, 1], numbers as they are."""
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

    Each input gets a 64-bit number of NumPy's Philox, keyed by the SHA-256 of "seed/inputs", and those with the
    smallest are taken: the same on every machine, whatever masks are drawn; a larger choice holds every smaller.
    """
    if limit < 1:
        raise InputError(f"limit must be at least 1, got {limit}")
    key = int.from_bytes(hashlib.sha256(f"{seed}/inputs".encode()).digest()[:16], "little")
    numbers = np.random.Philox(key=key).random_raw(count)
    chosen: Int64 = np.sort(np.argsort(numbers, kind="stable")[:limit]).astype(np.int64)
    return chosen
