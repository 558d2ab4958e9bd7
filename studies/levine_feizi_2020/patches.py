"""Certified accuracy of bands and blocks against square patches, beside published numbers."""

from __future__ import annotations

from collections.abc import Sequence

from sparsecert.reports import write_curves
from sparsecert.reports.comparison import NOT_APPLICABLE, Table, format_percent, settings_line, shared_settings
from sparsecert.schemes import SchemeSpec
from studies.levine_feizi_2020.fixed_masks import FixedRow, fixed_rows, subset_notes
from studies.levine_feizi_2020.output import Output
from studies.levine_feizi_2020.published import PublishedPatch, published_patches
from studies.levine_feizi_2020.study import Study
from studies.levine_feizi_2020.training_log import trained_by

DEFAULT_SCHEMES = {
    "mnist": ("bands-2", "bands-4", "bands-6", "blocks-10", "blocks-12"),
    "cifar10": ("bands-4", "blocks-12"),
}
SIDES = 1, 2, 3, 4, 5, 6, 8, 10


def default_specs(data: str) -> list[SchemeSpec]:
    """The bands and blocks of the table."""
    return [SchemeSpec.parse(name) for name in DEFAULT_SCHEMES[data]]


def patches(study: Study, scheme_specs: Sequence[SchemeSpec] | None = None) -> Output:
    """The table and the curves of these bands and blocks; missing models and records are created."""
    known = default_specs(study.data) if scheme_specs is None else scheme_specs
    rows = fixed_rows(study, [scheme_spec.one_of(("blocks", "bands"), "a perturbed patch") for scheme_spec in known])
    kinds = [row.scheme_spec.kind for row in rows]
    drawn = write_curves([row.default for row in rows], study.out / "figures" / f"patches-{study.data}", panels=kinds)
    return Output((patches_table(study, rows),), tuple(drawn))


def patches_table(study: Study, rows: Sequence[FixedRow]) -> Table:
    """What these bands and blocks certify, beside the published numbers."""
    known = published_patches("patches")
    printed = [row for row in known.rows if row.data == study.data]
    notes = (
        "n x n: the share of images certified for the true class against every change of a square patch of so many "
        "pixels, wherever it is put, by the run-off; there is no alpha",
        settings_line(
            {name: text for name, text in shared_settings([row.default for row in rows]).items() if name != "bound"}
        ),
        *subset_notes(rows),
        trained_by(study, [study.fixed_masks_spec(row.scheme_spec) for row in rows]),
        *([f"published: {known.source}; {known.about}"] if printed else []),
    )
    sides = (f"{side} x {side}" for side in SIDES)
    headers = ("masks", "images", "forward passes", "pixels retained", "accuracy", *sides)
    texts = (*(_measured(row) for row in rows), *(_published(row) for row in printed))
    return Table(headers, texts, f"{study.data}: certified accuracy against a patch", notes)


def _measured(row: FixedRow) -> tuple[str, ...]:
    shares = (format_percent(row.default.certified_accuracy_at(side) or 0.0) for side in SIDES)
    inputs, accuracy = str(row.default.inputs), format_percent(row.default.accuracy)
    return row.name, inputs, str(row.masks), row.retained, accuracy, *shares


def _published(row: PublishedPatch) -> tuple[str, ...]:
    shares = (f"{row.certified:.1f}%" if side == row.side else NOT_APPLICABLE for side in SIDES)
    return "published, best", *(NOT_APPLICABLE,) * 3, f"{row.accuracy:.1f}%", *shares
