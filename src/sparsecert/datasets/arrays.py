"""Images and labels that come as arrays: checked, and made a `Dataset` in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsecert.counts import Int64
from sparsecert.errors import InputError
from sparsecert.inputs.images import ArrayImages, Dataset

EITHER = ""  # the split of arrays that are not said to be for training or for testing
MOST_CHANNELS = 4
MOST_CLASSES = 100_000

Pair = tuple[NDArray[Any], NDArray[Any]]  # images and labels


@dataclass(frozen=True, eq=False)
class Arrays:
    """The images and labels of each split of a source, as they were found. classes: their names, where it has any."""

    splits: Mapping[str, Pair]
    classes: tuple[str, ...] | None = None

    def names(self) -> tuple[str, ...]:
        """The splits that can be asked for; arrays without a split serve as either."""
        return ("train", "test") if EITHER in self.splits else tuple(self.splits)

    def dataset(self, name: str, split: str) -> Dataset:
        """One split. Class names and channel statistics are of all splits and of the training one, whichever it is."""
        if EITHER not in self.splits and split not in self.splits:
            remedy = "add them" if split == "train" else "add them, or use --split train"
            raise InputError(f"{name} has no {split} images, only {', '.join(self.splits)}; {remedy}")
        labels, classes = _numbered({key: pair[1] for key, pair in self.splits.items()}, self.classes, name)
        images = {key: to_pixels(pair[0], name) for key, pair in self.splits.items()}
        for key, pixels in images.items():
            if len(pixels) != len(labels[key]):
                raise InputError(f"{name} must hold one label per image, got {len(labels[key])} for {len(pixels)}")
        shapes = {pixels.shape[1:] for pixels in images.values()}
        if len(shapes) > 1:
            raise InputError(f"{name} has training and test images of different shapes: {sorted(shapes)}")
        key = EITHER if EITHER in images else split
        mean, std = channel_statistics(images.get("train", images[key]))
        return Dataset(name, split, ArrayImages(images[key]), labels[key], classes, mean, std)


def to_pixels(images: NDArray[Any], name: str) -> NDArray[np.uint8]:
    """uint8 [n, c, h, w] of images [n, h, w], [n, h, w, c] or [n, c, h, w].

    Channels are the one dimension of at most 4; where two are, the one that PyTorch has. Integers and whole floats from
    0 to 255 are bytes; other floats must be in [0, 1] and are rounded to 8 bits.
    """
    if images.ndim == 3:
        images = images[:, None]
    elif images.ndim == 4 and images.shape[3] <= MOST_CHANNELS < images.shape[1]:
        images = np.moveaxis(images, 3, 1)
    if images.ndim != 4 or not len(images) or not 1 <= images.shape[1] <= MOST_CHANNELS or 0 in images.shape:
        raise InputError(
            f"{name} must hold images [n, height, width], [n, height, width, channels] or [n, channels, height, "
            f"width], with 1 to {MOST_CHANNELS} channels, got {images.shape}; reshape them"
        )
    if images.dtype == np.uint8:
        return np.ascontiguousarray(images)
    if images.dtype == np.bool_:
        return images.astype(np.uint8) * 255
    if images.dtype.kind not in "iuf":
        raise InputError(f"{name} must hold images of bytes or of floats in [0, 1], got {images.dtype}")
    low, high = images.min(), images.max()
    whole = images.dtype.kind in "iu" or (high > 1 and bool((images == np.round(images)).all()))
    most = 255 if whole else 1
    if not (low >= 0 and high <= most):  # NaN too
        raise InputError(
            f"{name} must hold bytes from 0 to 255 or floats from 0 to 1, got {low:g} to {high:g}; leave out "
            "normalisation, which is the encoding's"
        )
    scaled = images if whole else np.round(images * 255)
    return np.ascontiguousarray(scaled.astype(np.uint8))


def channel_statistics(pixels: NDArray[np.uint8]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel on the [0, 1] scale, from exact counts of each byte."""
    values = np.arange(256) / 255
    means, stds = [], []
    for channel in range(pixels.shape[1]):
        counts = np.bincount(pixels[:, channel].ravel(), minlength=256)
        mean = float((counts * values).sum() / counts.sum())
        means.append(mean)
        stds.append(float(np.sqrt((counts * (values - mean) ** 2).sum() / counts.sum())) or 1.0)
    return tuple(means), tuple(stds)


def _numbered(
    found: Mapping[str, NDArray[Any]], classes: tuple[str, ...] | None, name: str
) -> tuple[dict[str, Int64], tuple[str, ...]]:
    """The labels of each split as numbers of classes, and the classes' names."""
    labels = {key: one[:, 0] if one.shape[1:] == (1,) else one for key, one in found.items()}
    for one in labels.values():
        if one.ndim != 1 or one.dtype.kind not in "iuUS" or not len(one):
            raise InputError(f"{name} must hold labels [n], whole numbers or words, got {one.dtype} of {one.shape}")
    if any(one.dtype.kind in "US" for one in labels.values()):
        words = {key: one.astype(str) for key, one in labels.items()}
        known = classes or tuple(sorted({str(word) for one in words.values() for word in one}))
        place = {word: number for number, word in enumerate(known)}
        strange = sorted({str(word) for one in words.values() for word in one} - place.keys())
        if strange:
            raise InputError(f"{name} has the label {strange[0]!r}, which is not one of its classes")
        return {key: np.array([place[str(word)] for word in one], dtype=np.int64) for key, one in words.items()}, known
    most = max(int(one.max()) for one in labels.values())
    if most >= MOST_CLASSES:
        raise InputError(f"{name} must hold labels from 0 on, one number per class, got {most}; number the classes")
    known = classes or tuple(str(number) for number in range(most + 1))
    return {key: one.astype(np.int64) for key, one in labels.items()}, known
