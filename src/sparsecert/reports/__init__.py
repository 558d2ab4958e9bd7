"""Reports: records -> tables and curves. No torch here; the true label is compared with the certified one only here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sparsecert.reports.medians import certified_accuracy, median_certified_robustness
from sparsecert.reports.summary import Summary, summarise
from sparsecert.reports.tables import FORMATS

__all__ = ["FORMATS", "Summary", "certified_accuracy", "median_certified_robustness", "summarise", "write_curves"]


def write_curves(summaries: Sequence[Summary], path: str | Path) -> list[Path]:
    """Draws certified accuracy against rho to `path`, or to both path.png and path.svg when it names no format."""
    from sparsecert.reports import curves

    return curves.write_curves(summaries, path)
