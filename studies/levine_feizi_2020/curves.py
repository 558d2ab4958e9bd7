"""Certified accuracy against rho for the best k of each bound."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sparsecert.reports import write_curves
from studies.levine_feizi_2020.study import Study
from studies.levine_feizi_2020.tables import best, measured_rows, published_over_k


def curves(study: Study, path: Path, keeps: Sequence[int] | None = None) -> list[Path]:
    """Writes the curves of the k with the largest one-sided and the k with the largest two-sided median."""
    rows = measured_rows(study, published_over_k(study.data), keeps)
    one_sided, two_sided = best([row.one_sided for row in rows]), best([row.two_sided for row in rows])
    same_votes = next(row.two_sided for row in rows if row.one_sided is one_sided)
    return write_curves([*([] if same_votes is two_sided else [two_sided]), same_votes, one_sided], path)
