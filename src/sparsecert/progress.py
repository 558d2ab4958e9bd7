"""Progress callbacks."""

from __future__ import annotations

from collections.abc import Callable

OnProgress = Callable[[int, int | None], None]  # (done so far, total or None if unknown)
