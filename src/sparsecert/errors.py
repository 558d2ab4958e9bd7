"""The one exception a user's mistake raises, a warning, and the check of integer arguments."""

from __future__ import annotations

import operator
import traceback
from typing import Any


class InputError(ValueError):
    """The caller's mistake: the message names the argument, the value and the remedy.

    The command line prints the message on one line and exits with code 2; it never shows a traceback for it.
    """


class OneClassWarning(UserWarning):
    """Nearly all inputs get the same class, so their certificates are of no use. A command shows the first one only."""


def describe(value: Any) -> str:
    """What an argument is, for a refusal."""
    name = getattr(value, "__name__", type(value).__name__)
    return f"the class {name}" if isinstance(value, type) else name


def describe_failure(error: Exception) -> str:
    """What code of the user's raised, and in which line."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{error!r} at {frames[-1].filename}:{frames[-1].lineno}" if frames else repr(error)


def check_int(name: str, value: Any, least: int, most: int, most_is: str | None = None) -> int:
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
