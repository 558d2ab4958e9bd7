"""What a target of the study produces."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sparsecert.reports.comparison import Table


@dataclass(frozen=True)
class Output:
    """Tables to print, figures that were written, and alarms: attacks that contradict a certificate."""

    tables: tuple[Table, ...] = ()
    figures: tuple[Path, ...] = ()
    alarms: tuple[str, ...] = ()
