"""Reports: records -> tables, plots and pages. No torch here; only here are labels compared with the true ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sparsecert.reports.attack_tables import alarm, attack_report
from sparsecert.reports.attacks import AttackSummary, summarise_attack
from sparsecert.reports.gap import Gap, compute_gap, compute_gaps
from sparsecert.reports.medians import certified_accuracy, median_certified_robustness
from sparsecert.reports.summary import Summary, summarise
from sparsecert.reports.tables import FORMATS

__all__ = [
    "FORMATS",
    "AttackSummary",
    "Gap",
    "Summary",
    "alarm",
    "attack_report",
    "certified_accuracy",
    "compute_gap",
    "compute_gaps",
    "median_certified_robustness",
    "summarise",
    "summarise_attack",
    "write_attack_curves",
    "write_curves",
    "write_gaps",
]


def write_curves(summaries: Sequence[Summary], path: str | Path) -> list[Path]:
    """Plots certified accuracy against rho to `path`, or to both path.png and path.svg if it has no suffix."""
    from sparsecert.reports import curves

    return curves.write_curves(summaries, path)


def write_attack_curves(attacks: Sequence[AttackSummary], path: str | Path) -> list[Path]:
    """Plots accuracy under attack against rho, to files as `write_curves` does."""
    from sparsecert.reports import attack_curves

    return attack_curves.write_attack_curves(attacks, path)


def write_gaps(gaps: Sequence[Gap], attacks: Sequence[AttackSummary], path: str | Path) -> list[Path]:
    """Plots certified accuracy, accuracy under attack and the gap between them, to files as `write_curves` does."""
    from sparsecert.reports import attack_curves

    return attack_curves.write_gaps(gaps, attacks, path)
