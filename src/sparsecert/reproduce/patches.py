"""Certified accuracy against the size of a patch, for bands and blocks, beside what was published."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sparsecert.published import PublishedPatch, published_patches
from sparsecert.reports import write_curves
from sparsecert.reports.comparison import NOT_APPLICABLE, Table, format_percent, settings_line, shared_settings
from sparsecert.reproduce.fixed import FixedRow, fixed_rows, subset_notes
from sparsecert.reproduce.study import Study
from sparsecert.reproduce.training_log import trained_by
from sparsecert.schemes import Choice

CHOICES = {
    "mnist": ("bands-2", "bands-4", "bands-6", "blocks-10", "blocks-12"),
    "cifar10": ("bands-4", "blocks-12"),
}
SIDES = 1, 2, 3, 4, 5, 6, 8, 10


def choices_of(data: str) -> list[Choice]:
    """The bands and blocks of the table."""
    return [Choice.parse(name) for name in CHOICES[data]]


def patches(study: Study, choices: Sequence[Choice] | None = None) -> tuple[Table, list[Path]]:
    """The table of these bands and blocks, and their curves; what they lack is trained and certified."""
    known = choices_of(study.data) if choices is None else choices
    rows = fixed_rows(study, [choice.one_of(("blocks", "bands"), "an altered patch") for choice in known])
    drawn = write_curves([row.run_off for row in rows], study.out / "figures" / f"patches-{study.data}")
    return patches_table(study, rows), drawn


def patches_table(study: Study, rows: Sequence[FixedRow]) -> Table:
    """What these bands and blocks certify, beside what was published."""
    known = published_patches("patches")
    printed = [row for row in known.rows if row.data == study.data]
    notes = (
        "n x n: the share of images certified for the true class against every change of a square patch of so many "
        "pixels, wherever it is put, by the run-off; there is no alpha",
        settings_line(
            {name: text for name, text in shared_settings([row.run_off for row in rows]).items() if name != "bound"}
        ),
        *subset_notes(rows),
        trained_by(study, [study.fixed_cell(row.choice) for row in rows]),
        *([f"published: {known.source}; {known.about}"] if printed else []),
    )
    sides = (f"{side} x {side}" for side in SIDES)
    headers = ("masks", "images", "forward passes", "pixels retained", "accuracy", *sides)
    texts = (*(_measured(row) for row in rows), *(_published(row) for row in printed))
    return Table(headers, texts, f"{study.data}: certified accuracy against a patch", notes)


def _measured(row: FixedRow) -> tuple[str, ...]:
    shares = (format_percent(row.run_off.certified_accuracy_at(side) or 0.0) for side in SIDES)
    inputs, accuracy = str(row.run_off.inputs), format_percent(row.run_off.accuracy)
    return row.name, inputs, str(row.masks), row.retained, accuracy, *shares


def _published(row: PublishedPatch) -> tuple[str, ...]:
    shares = (f"{row.certified:.1f}%" if side == row.side else NOT_APPLICABLE for side in SIDES)
    return "published, best", *(NOT_APPLICABLE,) * 3, f"{row.accuracy:.1f}%", *shares
