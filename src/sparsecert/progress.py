"""The one type of progress callback: two counts, whose meaning each function states."""

from __future__ import annotations

from collections.abc import Callable

OnProgress = Callable[[int, int], None]  # such as (inputs done, ablated copies done) since the last call


def ignore(inputs: int, copies: int) -> None:
    """A callback that does nothing."""
