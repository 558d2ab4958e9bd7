"""Table 6: certificates on photographs; the paper's ImageNet rows follow, clearly labelled."""

from __future__ import annotations

from collections.abc import Sequence

from sparsecert.reports.comparison import NOT_APPLICABLE, Table, format_median
from studies.levine_feizi_2020 import models
from studies.levine_feizi_2020.published import PublishedRow, published
from studies.levine_feizi_2020.study import Study
from studies.levine_feizi_2020.tables import (
    ACCURACY_NOTE,
    Row,
    accuracy_text,
    measured_rows,
    printed_accuracy,
    same_votes_notes,
    settings,
    subset_notes,
)
from studies.levine_feizi_2020.training_log import trained_by

IMAGENET_CLASSES, PUBLISHED_IMAGES = 1_000, 400
HEADERS = (
    "data", "classes", "images", "k", "accuracy", "median", "median among certified",
    "two-sided median", "two-sided median among certified",
)  # fmt: skip


def table_6(study: Study, keeps: Sequence[int] | None = None) -> Table:
    """The study's photographs at the paper's k, each row named after its data; then the paper's rows."""
    known = published("table-6")
    rows = measured_rows(study, known, keeps)
    classes = rows[0].classes
    is_imagenet = study.data == "imagenet" and classes == IMAGENET_CLASSES
    name = _name(study, is_imagenet)
    trained = models.training_set(study)
    images = "" if trained is None else f", {trained['images']:,} training images"
    data = f"{name} ({classes:,} classes{images})"
    apart = f"the measured rows are of {data}, the published ones of ImageNet (1,000 classes): not to be compared"
    notes = (
        *([] if is_imagenet else [apart]),
        ACCURACY_NOTE,
        "median: over all images, those not certified for the true class counting as minus infinity; among certified: "
        "over the images certified for the true class; by Corollary 1 as in the paper, two-sided: by Corollary 2",
        settings(rows),
        *same_votes_notes(rows, known),
        *subset_notes(rows),
        trained_by(study, [row.spec for row in rows]),
        f"published: {known.source}: {known.about}",
        *known.remarks,
    )
    keeps = [row.spec.keep for row in rows]
    printed = (_published(row) for row in known.rows if row.keep in keeps)
    caption = f"{data}: certificates by retained pixels k; below them the paper's for ImageNet"
    texts = (*(_measured(name, row) for row in rows), *printed)
    differ = len({row.one_sided.inputs for row in rows}) > 1
    return Table(_shown(HEADERS, differ), tuple(_shown(each, differ) for each in texts), caption, notes)


def _shown(row: tuple[str, ...], images: bool) -> tuple[str, ...]:
    """A row with or without its number of images; the notes state it where all rows share it."""
    place = HEADERS.index("images")
    return row if images else (*row[:place], *row[place + 1 :])


def _name(study: Study, is_imagenet: bool) -> str:
    """The name of the data; ImageNet only if it has all 1,000 classes."""
    if is_imagenet:
        return "ImageNet"
    return "Imagenette" if study.data == "imagenette" else study.data_folder.name


def _measured(name: str, row: Row) -> tuple[str, ...]:
    one, two = row.one_sided, row.two_sided
    medians = (one.median, one.median_among_certified, two.median, two.median_among_certified)
    of = f"{name}, measured", f"{row.classes:,}", str(one.inputs), str(row.spec.keep)
    return (*of, accuracy_text(one), *map(format_median, medians))


def _published(row: PublishedRow) -> tuple[str, ...]:
    medians = format_median(row.median), format_median(row.median_among_certified)
    unknown = NOT_APPLICABLE, NOT_APPLICABLE
    of = "ImageNet, published", f"{IMAGENET_CLASSES:,}", str(PUBLISHED_IMAGES), str(row.keep)
    return (*of, printed_accuracy(row), *medians, *unknown)
