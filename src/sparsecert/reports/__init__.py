"""Reports: records -> tables, plots and pages. No torch here; only here are labels compared with the true ones."""

from __future__ import annotations

from sparsecert.reports.attack_curves import write_attack_curves, write_gaps
from sparsecert.reports.attack_tables import alarm, attack_report
from sparsecert.reports.attacks import AttackSummary, summarise_attack
from sparsecert.reports.curves import write_curves
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
