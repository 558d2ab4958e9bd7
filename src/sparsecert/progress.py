"""The one type of progress callback."""

from __future__ import annotations

from typing import Any, Protocol


class OnProgress(Protocol):
    """Takes two counts, such as (inputs done, ablated copies done) since the last call; each function states which.

    Training adds metrics by name; callbacks for anything else need not take them.
    """

    def __call__(self, count: int, other: int, /, *args: Any, **metrics: Any) -> None: ...


def ignore(*_counts: int, **_metrics: float) -> None:
    """A callback that does nothing."""
