"""How the copies of an input rank the classes, as text: what the exact certificates of a fixed set of masks need."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int16 = npt.NDArray[np.int16]

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"  # of up to 36 classes, each is one
NO_OPINION = "-"  # a copy whose scores were not finite
_VALUES = np.full(256, -1, dtype=np.int16)
_VALUES[np.frombuffer(DIGITS.encode(), dtype=np.uint8)] = np.arange(len(DIGITS))


def written(ranks: Int16) -> str:
    """The classes from first to last of each mask, masks apart by a space: "021 102 -".

    ranks: int16[masks, classes], 0 for the class with the largest score, or all 0. Of more than 36 classes each is a
    number, with commas between.
    """
    return " ".join(map(_one, ranks))


def _one(ranks: Int16) -> str:
    if not ranks.any():
        return NO_OPINION
    order = np.argsort(ranks).tolist()
    return "".join(DIGITS[label] for label in order) if len(order) <= len(DIGITS) else ",".join(map(str, order))


def read(text: str, classes: int) -> Int16:
    """int16[masks, classes]: the ranks that `written` wrote; refuses what is no ranking of so many classes."""
    masks = text.split(" ")
    opinions = np.array([mask != NO_OPINION for mask in masks])
    order = _order([mask for mask in masks if mask != NO_OPINION], classes)
    if not (np.sort(order, axis=1) == np.arange(classes)).all():
        raise ValueError(f"rankings do not name each of {classes} classes once")
    ranks = np.zeros((len(masks), classes), dtype=np.int16)
    ranks[opinions] = np.argsort(order, axis=1)
    return ranks


def _is_number(text: str) -> bool:
    return text.isdecimal() and text.isascii() and len(text) < 6


def _order(masks: list[str], classes: int) -> Int16:
    """int16[masks, classes]: the classes from first to last, as they are written; -1 for what is no class."""
    if classes > len(DIGITS):
        rows = [mask.split(",") for mask in masks]
        if not all(len(row) == classes and all(map(_is_number, row)) for row in rows):
            raise ValueError(f"rankings are not of {classes} classes")
        return np.array(rows, dtype=np.int64).clip(max=classes).astype(np.int16).reshape(-1, classes)
    if any(len(mask) != classes for mask in masks):
        raise ValueError(f"rankings are not of {classes} classes")
    return _VALUES[np.frombuffer("".join(masks).encode("ascii"), dtype=np.uint8)].reshape(-1, classes)
