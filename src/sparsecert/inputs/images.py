"""Images as inputs: bytes, labels, class names and channel statistics of the training set; a unit is a pixel."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sparsecert.counts import Int64
from sparsecert.errors import InputError
from sparsecert.inputs import draw, space
from sparsecert.inputs.units import Units
from sparsecert.registry import DATASETS

Indices = Sequence[int] | Int64


class Images(Protocol):
    """A fixed, ordered collection of equally sized images, read by index."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, height and width of every image."""

    def __len__(self) -> int: ...

    def batch(self, indices: Indices) -> NDArray[np.uint8]:
        """The images at `indices`, in that order, as a fresh uint8 array [b, c, h, w]."""

    def fingerprint(self) -> str:
        """A hex SHA-256 that changes when the images or their order change."""


@dataclass(frozen=True, eq=False)
class ArrayImages:
    """Images held in memory as one uint8 array [n, c, h, w]."""

    pixels: NDArray[np.uint8]

    def __post_init__(self) -> None:
        if self.pixels.dtype != np.uint8 or self.pixels.ndim != 4:
            raise InputError(
                f"pixels must be a uint8 array [n, c, h, w], got {self.pixels.dtype} of shape {self.pixels.shape}"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        return self.pixels.shape[1:]

    def __len__(self) -> int:
        return len(self.pixels)

    def batch(self, indices: Indices) -> NDArray[np.uint8]:
        return self.pixels[check_indices(indices, len(self))]

    def fingerprint(self) -> str:
        digest = hashlib.sha256(repr(tuple(map(int, self.pixels.shape))).encode())
        digest.update(np.ascontiguousarray(self.pixels).data)
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class Dataset:
    """One split of a data set of images: the `Inputs` of a run.

    Guarantees one int64 label per image, every label within `classes`, and one mean and standard deviation per channel.
    `mean` and `std` are those of the training split, on the [0, 1] scale, whichever split this is. `skipped` names the
    files that were left out because they cannot be decoded; they have no index. `non_images` names the other entries of
    an image folder, hidden files excepted. `resized` is the size that was asked of its images; `notes` are lines that a
    user should read. `where` is the folder that a named data set was found in.
    """

    name: str
    split: str
    images: Images
    labels: Int64
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    skipped: tuple[str, ...] = ()
    non_images: tuple[str, ...] = ()
    resized: int | None = None
    notes: tuple[str, ...] = ()
    where: Path | None = None

    def __post_init__(self) -> None:
        if self.labels.dtype != np.int64 or self.labels.ndim != 1:
            raise InputError(f"labels must be an int64 array [n], got {self.labels.dtype} of {self.labels.shape}")
        if len(self.labels) != len(self.images):
            raise InputError(f"labels must be one per image ({len(self.images)}), got {len(self.labels)}")
        if len(self.labels) and not (self.labels.min() >= 0 and self.labels.max() < len(self.classes)):
            raise InputError(
                f"labels must be between 0 and {len(self.classes) - 1}, got {self.labels.min()} to {self.labels.max()}"
            )
        for argument, values in (("mean", self.mean), ("std", self.std)):
            if len(values) != self.images.shape[0]:
                raise InputError(f"{argument} must have one value per channel ({self.images.shape[0]}), got {values}")

    def __len__(self) -> int:
        return len(self.labels)

    def fingerprint(self) -> str:
        """SHA-256 of the images' fingerprint and the labels; equal on every machine for equal data. Computed once."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        digest = hashlib.sha256(self.images.fingerprint().encode())
        digest.update(self.labels.astype("<i8").tobytes())
        return digest.hexdigest()

    @property
    def units(self) -> Units:
        return Units.of(self.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.images.shape

    def batch(self, indices: Sequence[int] | Int64) -> NDArray[np.uint8]:
        return self.images.batch(indices)

    def identity(self) -> dict[str, Any]:
        """What a model file says of the images that decided its weights."""
        skipped = {"skipped": len(self.skipped)} if self.skipped else {}
        return {"name": self.name, "split": self.split, "fingerprint": self.fingerprint(), **skipped}

    def metadata(self) -> dict[str, Any]:
        """For `Smoothed(..., metadata=...)` of a model trained on these images: its file then knows them, as after
        `sparsecert train`, so that images of another shape, other classes or another data set are noticed.
        """
        return {
            "data": self.name,
            "shape": list(self.shape),
            "class_names": list(self.classes),
            "training": {"settings": {"data": self.identity()}},
        }

    def header_fields(self) -> dict[str, Any]:
        """What the records of data of one's own need besides, since the data may be gone when they are read."""
        return {
            **({"skipped": len(self.skipped)} if self.skipped else {}),
            **({"resized": self.resized} if self.resized is not None else {}),
            **({} if self.name in DATASETS else {"class_names": list(self.classes)}),
        }

    def spaced_indices(self, limit: int | None) -> Int64:
        """Indices of `limit` evenly spaced inputs; all of them when None or >= n."""
        return space(len(self), limit)

    def random_indices(self, limit: int, seed: int) -> Int64:
        """Indices, in order, of `limit` inputs drawn without replacement, every subset being as likely."""
        return draw(len(self), limit, seed)


def check_indices(indices: Indices, count: int) -> Int64:
    """`indices` as an int64 array, each in 0..count-1."""
    array = np.asarray(indices, dtype=np.int64)
    if array.size and not (array.min() >= 0 and array.max() < count):
        raise InputError(f"indices must be between 0 and {count - 1}, got {array.min()} to {array.max()}")
    return array
