"""How each copy of an input ranks the classes, as text: all that the exact certificates need."""

from __future__ import annotations

import numpy as np

from sparsecert.counts import Int16

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"  # one for each of up to 36 classes
NO_OPINION = "-"  # a copy whose scores were not finite
_VALUES = np.full(256, -1, dtype=np.int16)
_VALUES[np.frombuffer(DIGITS.encode(), dtype=np.uint8)] = np.arange(len(DIGITS))


def to_text(ranks: Int16) -> str:
    """The classes from first to last for each mask, masks separated by a space: "021 102 -".

    ranks: int16[masks, classes], 0 for the class with the largest score, or all 0. With more than 36 classes each is a
    number, separated by commas.
    """
    return " ".join(map(_mask_to_text, ranks))


def _mask_to_text(ranks: Int16) -> str:
    if not ranks.any():
        return NO_OPINION
    order = np.argsort(ranks).tolist()
    return "".join(DIGITS[label] for label in order) if len(order) <= len(DIGITS) else ",".join(map(str, order))


def from_text(text: str, classes: int) -> Int16:
    """int16[masks, classes]: the inverse of `to_text`; refuses text that does not rank that many classes."""
    masks = text.split(" ")
    opinions = np.array([mask != NO_OPINION for mask in masks])
    order = _parse_order([mask for mask in masks if mask != NO_OPINION], classes)
    if not (np.sort(order, axis=1) == np.arange(classes)).all():
        raise ValueError(f"rankings do not name each of {classes} classes once")
    ranks = np.zeros((len(masks), classes), dtype=np.int16)
    ranks[opinions] = np.argsort(order, axis=1)
    return ranks


def _is_number(text: str) -> bool:
    return text.isdecimal() and text.isascii() and len(text) < 6


def _parse_order(masks: list[str], classes: int) -> Int16:
    """int16[masks, classes]: the classes from first to last, -1 for a character that is none."""
    if classes > len(DIGITS):
        rows = [mask.split(",") for mask in masks]
        if not all(len(row) == classes and all(map(_is_number, row)) for row in rows):
            raise ValueError(f"rankings are not of {classes} classes")
        return np.array(rows, dtype=np.int64).clip(max=classes).astype(np.int16).reshape(-1, classes)
    if not {classes}.issuperset(map(len, masks)):
        raise ValueError(f"rankings are not of {classes} classes")
    return _VALUES[np.frombuffer("".join(masks).encode("ascii"), dtype=np.uint8)].reshape(-1, classes)
