"""The one exception a user's mistake raises."""

from __future__ import annotations

from typing import Any


class InputError(ValueError):
    """Something the caller gave cannot be used: the message names the argument, what came, and the remedy.

    The command line prints the message on one line and exits with code 2; it never shows a traceback for it.
    """


def describe(value: Any) -> str:
    """What an argument is, for a refusal."""
    return (
        f"the class {value.__name__}" if isinstance(value, type) else getattr(value, "__name__", type(value).__name__)
    )
