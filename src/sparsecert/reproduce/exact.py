"""Exact certificates by what they cost: fixed sets of masks, beside random ones and the best published medians."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sparsecert.published import published_medians
from sparsecert.reports import Summary, summarise
from sparsecert.reports.comparison import NOT_APPLICABLE, Table, median, percent, sentence, shared_facts
from sparsecert.reports.curves import COLOURS
from sparsecert.reports.drawing import write_figure
from sparsecert.reproduce.fixed import FixedRow, fixed_rows, subset_notes
from sparsecert.reproduce.study import Study
from sparsecert.reproduce.tables import best, published_over_k
from sparsecert.schemes import Choice

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CHOICES = {
    "mnist": ("28x1", "28x3", "28x7", "40x1", "49x1", "49x4", "56x1", "60x1", "60x3"),
    "cifar10": ("32x1", "32x4", "40x1", "40x4", "50x1", "50x4", "64x1", "64x3", "100x1", "100x2"),
}
PASSES = 10, 20_000  # of the figure


def choices_of(data: str) -> list[Choice]:
    """The sets of masks of the table, up to 200 forward passes."""
    return [Choice.parse(f"lattice-{name}") for name in CHOICES[data]]


def exact(study: Study, choices: Sequence[Choice] | None = None) -> tuple[Table, list[Path]]:
    """The table of these sets of masks, and the figure; what they lack is trained and certified."""
    known = choices_of(study.data) if choices is None else choices
    rows = fixed_rows(study, [choice.one_of(("lattice", "partition"), "altered pixels") for choice in known])
    sampled = sampled_best(study)
    path = study.out / "figures" / f"exact-{study.data}"
    return _table(study, rows), write_figure(lambda: _figure(study.data, rows, sampled), path)


def _table(study: Study, rows: Sequence[FixedRow]) -> Table:
    known = published_medians("partitions")
    printed = known.of(study.data)
    recipe = study.recipe_of(study.fixed_cell(rows[0].choice))
    headers = (
        "masks", "forward passes", "pixels retained", "accuracy, run-off", "accuracy, plurality", "median, run-off",
        "median, plurality", "best published median", "difference",
    )  # fmt: skip
    notes = (
        "lattice-28x3: 3 partitions of the image into 28 masks each; every mask votes, so that what is certified holds "
        "always: there is no alpha",
        "median: the most altered pixels against which half of the images are certified for the true class",
        "difference: the larger of the two medians against the published one",
        sentence({name: text for name, text in shared_facts([row.run_off for row in rows]).items() if name != "bound"}),
        *subset_notes(rows),
        f"trained by the recipe {recipe.name} ({recipe.epochs} epochs)",
        *([f"published: {known.source}"] if printed is not None else []),
    )
    texts = tuple(_texts(row, printed) for row in rows)
    return Table(headers, texts, f"{study.data}: exact certificates by a fixed set of masks", notes)


def _texts(row: FixedRow, printed: int | None) -> tuple[str, ...]:
    medians = row.run_off.median, row.plurality.median
    largest = max((value for value in medians if value is not None), default=None)
    apart = NOT_APPLICABLE if printed is None or largest is None else f"{largest - printed:+d}"
    return (
        row.name,
        str(row.masks),
        row.retained,
        percent(row.run_off.accuracy),
        percent(row.plurality.accuracy),
        *map(median, medians),
        NOT_APPLICABLE if printed is None else str(printed),
        apart,
    )


def sampled_best(study: Study) -> dict[str, Summary]:
    """By each bound, the largest median of the randomly drawn masks that the study has records of; none is made."""
    sampling = study.sampling(published_over_k(study.data).sampling)
    cells = [cell for cell in study.found(study.cell(1)) if study.has(cell, sampling)]
    found = [study.records(cell, sampling)[0] for cell in cells]
    summaries: dict[str, list[Summary]] = {"two-sided": [], "one-sided": []}
    with study.bars.rows(len(found)) as told:
        for one in found:
            for bound, known in summaries.items():
                known.append(summarise(one, bound=bound))
            told()
    return {bound: best(known) for bound, known in summaries.items() if known}


def _figure(data: str, rows: Sequence[FixedRow], sampled: dict[str, Summary]) -> Figure:
    """Medians against forward passes, on a logarithmic scale."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.4), layout="constrained")
    axes = figure.add_subplot()
    by_rule = {"run-off": [row.run_off for row in rows], "plurality": [row.plurality for row in rows]}
    for colour, marker, (rule, summaries) in zip(COLOURS, "os", by_rule.items(), strict=False):
        _points(axes, summaries, f"exact, {rule}; {summaries[0].inputs:,} images", colour, marker)
    for colour, marker, (bound, summary) in zip(COLOURS[2:], "^v", sampled.items(), strict=False):
        settings = f"k = {summary.scheme['keep']}, alpha = {summary.alpha}; {summary.inputs:,} images"
        _points(axes, [summary], f"{bound}, {settings}", colour, marker)
    printed = published_medians("partitions").of(data)
    if printed is not None:
        axes.axhline(printed, color="0.4", linestyle=":", linewidth=1, label="best published: partition aggregation")
    axes.set_xscale("log")
    axes.set_xlim(*PASSES)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("forward passes per image")
    axes.set_ylabel("median certified robustness (pixels)")
    axes.set_title(f"{data}: what is certified, by what it costs", loc="left", fontsize=11)
    axes.grid(color="0.9", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower left", fontsize=8, frameon=False, ncols=2)
    return figure


def _points(axes: Axes, summaries: Sequence[Summary], label: str, colour: str, marker: str) -> None:
    """A mark for each run that has a median; hollow, so that one does not hide another."""
    known = [(one.mean_samples, one.median) for one in summaries if one.median is not None]
    passes, medians = [passes for passes, _ in known], [middle for _, middle in known]
    axes.plot(passes, medians, marker, color=colour, markersize=7, markerfacecolor="none", label=label, zorder=3)
