"""Exact certificates of fixed sets of masks against their cost, beside random masks and published medians."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sparsecert.records import Records
from sparsecert.records.subsample import subsample
from sparsecert.reports import Summary, summarise
from sparsecert.reports.comparison import (
    NOT_APPLICABLE,
    Table,
    format_median,
    format_percent,
    settings_line,
    shared_settings,
)
from sparsecert.reports.curves import COLOURS
from sparsecert.reports.drawing import write_figure
from sparsecert.schemes import SchemeSpec
from studies.levine_feizi_2020 import record_files
from studies.levine_feizi_2020.fixed_masks import FixedRow, fixed_rows, subset_notes
from studies.levine_feizi_2020.output import Output
from studies.levine_feizi_2020.published import published_medians
from studies.levine_feizi_2020.study import Study
from studies.levine_feizi_2020.tables import best, published_over_k
from studies.levine_feizi_2020.training_log import trained_by

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DEFAULT_SCHEMES = {
    "mnist": ("28x1", "28x3", "40x1", "49x1", "60x1"),
    "cifar10": ("40x1", "50x1", "64x1"),
}
PASSES = 10, 20_000  # range of the figure's x axis
PARTS = 1, 3, 10, 30, 100  # random masks are also shown with 1/3, 1/10, ... of the samples


def default_specs(data: str) -> list[SchemeSpec]:
    """The sets of masks of the table, up to 200 forward passes."""
    return [SchemeSpec.parse(f"lattice-{name}") for name in DEFAULT_SCHEMES[data]]


def exact(study: Study, scheme_specs: Sequence[SchemeSpec] | None = None) -> Output:
    """The table and the figure of these sets of masks; missing models and records are created."""
    known = default_specs(study.data) if scheme_specs is None else scheme_specs
    rows = fixed_rows(
        study, [scheme_spec.one_of(("lattice", "partition"), "perturbed pixels") for scheme_spec in known]
    )
    series = [*exact_series(rows), *sampled_series(sampled_best(study))]
    path = study.out / "figures" / f"exact-{study.data}"
    drawn = write_figure(lambda: _figure(study.data, series), path)
    return Output((exact_table(study, rows),), tuple(drawn))


def exact_table(study: Study, rows: Sequence[FixedRow]) -> Table:
    """What these sets of masks certify, beside the best published median."""
    known = published_medians("partitions")
    printed = known.of(study.data)
    headers = (
        "masks", "forward passes", "pixels retained", "accuracy", "median", "best published median", "difference",
        "median, run-off", "median, plurality",
    )  # fmt: skip
    notes = (
        "lattice-28x3: 3 partitions of the image into 28 masks each; every mask votes, so that what is certified holds "
        "always: there is no alpha",
        "median: the most perturbed pixels against which half of the images are certified for the true class",
        "accuracy and median by pairwise comparison: the class that beats every other one wins; the last two columns "
        "certify the same rankings by the older rules",
        "difference: the median against the published one",
        settings_line(
            {name: text for name, text in shared_settings([row.default for row in rows]).items() if name != "bound"}
        ),
        *subset_notes(rows),
        trained_by(study, [study.fixed_masks_spec(row.scheme_spec) for row in rows]),
        *([f"published: {known.source}"] if printed is not None else []),
    )
    texts = tuple(_texts(row, printed) for row in rows)
    return Table(headers, texts, f"{study.data}: exact certificates by a fixed set of masks", notes)


def _texts(row: FixedRow, printed: int | None) -> tuple[str, ...]:
    median = row.default.median
    apart = NOT_APPLICABLE if printed is None or median is None else f"{median - printed:+d}"
    return (
        row.name,
        str(row.masks),
        row.retained,
        format_percent(row.default.accuracy),
        format_median(median),
        NOT_APPLICABLE if printed is None else str(printed),
        apart,
        format_median(row.by("run-off").median),
        format_median(row.by("plurality").median),
    )


@dataclass(frozen=True)
class Series:
    """One line of the figure: what is certified at several costs."""

    label: str
    summaries: tuple[Summary, ...]
    marker: str
    joined: bool = False


def sampled_best(study: Study) -> dict[str, Records]:
    """For each bound, the study's run by random masks with the largest median; creates none.

    Only runs on the most images are compared, so that both bounds are measured on the same ones. They were trained for
    as many epochs as their recipe has, whatever the study's fixed sets were.
    """
    study = replace(study, epochs=None)
    sampling = study.sampling(published_over_k(study.data).sampling)
    specs = [spec for spec in study.found(study.spec(1)) if record_files.has(study, spec, sampling)]
    known = [record_files.read(study, spec, sampling)[0] for spec in specs]
    found = [one for one in known if len(one.lines) == max(len(other.lines) for other in known)]
    summaries: dict[str, list[Summary]] = {"two-sided": [], "one-sided": []}
    with study.progress.rows(len(found)) as on_progress:
        for one in found:
            for bound, by_bound in summaries.items():
                by_bound.append(summarise(one, bound=bound))
            on_progress()
    return {bound: found[by_bound.index(best(by_bound))] for bound, by_bound in summaries.items() if by_bound}


def sampled_series(found: Mapping[str, Records]) -> list[Series]:
    """For each bound its run, with fewer and fewer of its votes."""
    series = []
    for marker, (bound, run) in zip("^v", found.items(), strict=False):
        n0, n = run.header.run["n0"], run.header.run["n"]
        fewer = [(n0 // part, n // part) for part in PARTS if n0 // part]
        summaries = tuple(summarise(subsample(run, *each), bound=bound) for each in fewer)
        first = summaries[0]
        settings = f"k = {first.scheme['keep']}, alpha = {first.alpha}; {first.inputs:,} images"
        series.append(Series(f"{bound}, {settings}", summaries, marker, joined=True))
    return series


def exact_series(rows: Sequence[FixedRow]) -> list[Series]:
    """A series for each rule, with a mark for each set of masks."""
    by_rule = {rule: tuple(row.by(rule) for row in rows) for rule in ("pairwise", "plurality")}
    return [
        Series(f"exact, {rule}; {summaries[0].inputs:,} images", summaries, marker)
        for marker, (rule, summaries) in zip("os", by_rule.items(), strict=True)
    ]


def _figure(data: str, series: Sequence[Series]) -> Figure:
    """Medians, and certified accuracy at the paper's largest median, against forward passes."""
    from matplotlib.figure import Figure

    known = published_over_k(data)
    rho = max((row.median or 0 for row in known.rows if known.data == data), default=1)
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for colour, one in zip(COLOURS, series, strict=False):
        _points(left, one, colour, [summary.median for summary in one.summaries])
        shares = [summary.certified_accuracy_at(rho) or 0.0 for summary in one.summaries]
        _points(right, one, colour, [100 * share for share in shares])
        for summary, share in zip(one.summaries, shares, strict=True):
            for low, high in summary.band([share]):
                right.vlines(summary.mean_samples, 100 * low, 100 * high, color=colour, linewidth=1)
    printed = published_medians("partitions").of(data)
    if printed is not None:
        left.axhline(printed, color="0.4", linestyle=":", linewidth=1, label="best published: partition aggregation")
    left.set_ylabel("median certified robustness (pixels)")
    right.set_ylabel(f"certified against {rho} pixels (% of images)")
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_xlim(*PASSES)
        axes.margins(y=0.1)
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_xlabel("forward passes per image")
        axes.grid(color="0.9", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"{data}: what is certified, by what it costs", x=0.01, ha="left", fontsize=11)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", fontsize=8, frameon=False, ncols=2)
    return figure


def _points(axes: Axes, series: Series, colour: str, heights: Sequence[float | None]) -> None:
    """A hollow mark for each run that has such a number."""
    known = [
        (one.mean_samples, height) for one, height in zip(series.summaries, heights, strict=True) if height is not None
    ]
    passes, there = [x for x, _ in known], [y for _, y in known]
    line = f"{series.marker}-" if series.joined else series.marker
    style: dict[str, Any] = {"color": colour, "linewidth": 1, "markersize": 7, "markerfacecolor": "none", "zorder": 3}
    axes.plot(passes, there, line, label=series.label, **style)
