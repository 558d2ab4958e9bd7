"""Figure 1: an image, its ablations at several k with the base classifier's labels, and what each k is worth."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsecert import datasets
from sparsecert.errors import InputError
from sparsecert.files import write_atomically
from sparsecert.reports.comparison import format_median, format_percent
from sparsecert.reports.drawing import write_figure
from sparsecert.reports.pictures import image, retained, show, with_null
from sparsecert.runs import load_batch
from sparsecert.schemes import ESTIMATION, Uniform
from studies.levine_feizi_2020 import models
from studies.levine_feizi_2020.published import published
from studies.levine_feizi_2020.study import Study
from studies.levine_feizi_2020.tables import Row, measured_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEEPS = 5, 15, 25, 45, 85
EXAMPLE, COPIES = 0, 4  # the first test image, which also ships with the package, and its first estimation copies


def figure_1(study: Study, path: Path, keeps: Sequence[int] | None = None) -> list[Path]:
    """Writes the figure; the labels are stored beside the records, so that it can be drawn again."""
    rows = measured_rows(study, published("table-1"), KEEPS if keeps is None else keeps)
    labels = base_labels(study, {row.spec.keep: row.one_sided.model_sha256 for row in rows})
    return write_figure(lambda: _figure(rows, labels, study.seed), path)


def base_labels(study: Study, models: dict[int, str]) -> dict[int, list[int]]:
    """The base classifiers' labels of the copies shown, for each k and its model's sha256: read, or computed."""
    path = study.data_folder / "figure-1.json"
    known = _read(path, study.seed)
    missing = [keep for keep, model in models.items() if known.get(keep, {}).get("model") != model]
    if missing:
        known |= {keep: {"model": models[keep], "labels": _computed(study, keep)} for keep in missing}
        facts = {"example": EXAMPLE, "copies": COPIES, "seed": study.seed}
        labels = {str(keep): known[keep] for keep in sorted(known)}
        write_atomically(path, (json.dumps({**facts, "labels": labels}, indent=1) + "\n").encode())
    return {keep: known[keep]["labels"] for keep in models}


def _read(path: Path, seed: int) -> dict[int, dict[str, Any]]:
    if not path.is_file():
        return {}
    try:
        found: dict[str, Any] = json.loads(path.read_text())
        same = (found["example"], found["copies"], found["seed"]) == (EXAMPLE, COPIES, seed)
        labels = {int(keep): {"model": row["model"], "labels": row["labels"]} for keep, row in found["labels"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is damaged ({error}); delete it and run the command again") from error
    if not same:
        raise InputError(f"{path} is of another seed or image; name another --out folder")
    return labels


def _computed(study: Study, keep: int) -> list[int]:
    smoothed, image = models.load(study, study.spec(keep)), load_batch(study.test, [EXAMPLE])
    votes = [smoothed.count(image, ESTIMATION + copy, 1, study.seed, examples=[EXAMPLE]) for copy in range(COPIES)]
    return [int(vote.votes[0].argmax()) for vote in votes]


def _figure(rows: Sequence[Row], labels: dict[int, list[int]], seed: int) -> Figure:
    from matplotlib.figure import Figure

    data = datasets.load("mnist-sample")
    grey = image(data, EXAMPLE)
    figure = Figure(figsize=(7, 1.35 * (len(rows) + 1)), layout="constrained")
    grid = figure.add_gridspec(len(rows) + 1, COPIES + 1, width_ratios=[1.6, *[1] * COPIES])
    show(figure.add_subplot(grid[0, 1:]), grey, "the image to be classified", fontsize=9)
    for place, row in enumerate(rows, start=1):
        keep = row.spec.keep
        words = figure.add_subplot(grid[place, 0])
        words.axis("off")
        words.text(0, 0.5, _words(row), va="center", fontsize=8.5, linespacing=1.5)
        for copy in range(COPIES):
            mask = retained(Uniform(grey.size, keep), seed, EXAMPLE, copy, grey.shape)
            title = f"label {data.classes[labels[keep][copy]]}"
            show(figure.add_subplot(grid[place, copy + 1]), with_null(grey[None], mask), title)
    return figure


def _words(row: Row) -> str:
    medians = f"{format_median(row.one_sided.median)} one-sided, {format_median(row.two_sided.median)} two-sided"
    return f"k = {row.spec.keep}\naccuracy {format_percent(row.one_sided.accuracy)}\nmedian {medians}"
