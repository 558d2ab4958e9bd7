"""The one type of progress callback."""

from __future__ import annotations

from collections.abc import Callable

OnProgress = Callable[[int, int], None]  # (inputs done, ablated copies done) since the last call


def ignore(inputs: int, copies: int) -> None:
    """For whoever does not listen."""
