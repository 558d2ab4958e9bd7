"""Checking integer arguments."""

from __future__ import annotations

import operator
from typing import Any

from sparsecert.errors import InputError


def whole(name: str, value: Any, least: int, most: int, most_is: str | None = None) -> int:
    """`value` as an int between `least` and `most`; accepts numpy and torch integers, refuses floats and bools."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or not least <= number <= most:
        raise InputError(f"{name} must be a whole number between {least} and {most_is or most}, got {value!r}")
    return number
