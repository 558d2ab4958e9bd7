"""The results of a page by certified radius and by true class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sparsecert.reports.comparison import (
    NOT_APPLICABLE,
    Table,
    certificates_line,
    format_median,
    format_percent,
    radius_name,
    run_names,
)
from sparsecert.reports.medians import certified_accuracy, median_certified_robustness
from sparsecert.reports.page.charts import Bar, BarsChart
from sparsecert.reports.page.input_results import ClassTotals, InputResult, ReportedRun, by_class
from sparsecert.reports.page.sections import narrow, select_radii

MAX_BARS = 60


def histograms(runs: Sequence[ReportedRun], results: Sequence[Sequence[InputResult]]) -> list[BarsChart]:
    """Histograms of the certified radii, one per run that certifies."""
    pairs = [(run.summary, every) for run, every in zip(runs, results, strict=True) if run.certifies]
    names = run_names([summary for summary, _ in pairs]) if pairs else []
    return [
        BarsChart(
            title=f"number of inputs by certified radius, {name}",
            caption=f"Inputs by certified radius: {certificates_line(summary)}.",
            x_label=f"certified radius ({radius_name([summary])})",
            bars=radius_bars(every),
            heading=name if len(pairs) > 1 else "",
        )
        for (summary, every), name in zip(pairs, names, strict=True)
    ]


def radius_bars(every: Sequence[InputResult]) -> list[Bar]:
    """A bar per radius or range of radii, after one of the inputs without a certificate, if any."""
    right = Counter(one.radius for one in every if one.radius is not None and one.right)
    wrong = Counter(one.radius for one in every if one.radius is not None and not one.right)
    uncertified = sum(one.radius is None for one in every)
    largest = max([0, *right, *wrong])
    width = -(-(largest + 1) // MAX_BARS)
    bars = [Bar("none", uncertified=uncertified)] if uncertified else []
    for start in range(0, largest + 1, width):
        radii = range(start, start + width)
        label = str(start) if width == 1 else f"{start}-{start + width - 1}"
        bars.append(Bar(label, sum(right[rho] for rho in radii), sum(wrong[rho] for rho in radii)))
    return bars


def class_tables(
    runs: Sequence[ReportedRun], results: Sequence[Sequence[InputResult]], names: Sequence[Sequence[str]]
) -> list[Table]:
    """Accuracy by true class: a single run with its certificates, or several with a column each."""
    if len(runs) == 1:
        return [_class_table(runs[0], list(results[0]), names[0])]
    tables = []
    sets = list(dict.fromkeys(_data_key(run) for run in runs))
    for data in sets:
        places = [place for place, run in enumerate(runs) if _data_key(run) == data]
        some = [runs[place] for place in places]
        each = [by_class(runs[place], list(results[place])) for place in places]
        about = "Accuracy by true class" + (f", {data[0]} {data[1]}" if len(sets) > 1 else "")
        about += ", and the median certified radius in brackets" if any(run.certifies for run in some) else ""
        rows = [
            (name, *(_class_cell(found[label], run.certifies) for run, found in zip(some, each, strict=True)))
            for label, name in enumerate(names[places[0]])
        ]
        tables += narrow(Table(("class", *run_names([run.summary for run in some])), tuple(rows), about))
    return tables


def _class_cell(found: ClassTotals, certifies: bool) -> str:
    if found.accuracy is None:
        return NOT_APPLICABLE
    median = format_median(median_certified_robustness(found.robustness))
    return format_percent(found.accuracy) + (f" ({median})" if certifies else "")


def _data_key(run: ReportedRun) -> tuple[str, str, str | None, int]:
    data = run.records.header.run["data"]
    return data["name"], data["split"], data.get("fingerprint"), run.records.header.run["classes"]


def _class_table(run: ReportedRun, every: list[InputResult], names: Sequence[str]) -> Table:
    radii = select_radii([run.summary]) if run.certifies else []
    certified = ("median certified radius", *(f"certified at {rho}" for rho in radii)) if run.certifies else ()
    rows = []
    for name, found in zip(names, by_class(run, every), strict=True):
        accuracy = found.accuracy
        cells = [NOT_APPLICABLE] * 2
        if accuracy is not None:
            cells = [format_percent(accuracy), format_percent(found.abstained / found.predicted)]
        if run.certifies and not found.robustness:
            cells += [NOT_APPLICABLE] * len(certified)
        elif run.certifies:
            shares = certified_accuracy(found.robustness)
            cells.append(format_median(median_certified_robustness(found.robustness)))
            cells += [format_percent(shares[rho] if rho < len(shares) else 0.0) for rho in radii]
        rows.append((name, str(found.predicted), *cells))
    notes = () if run.predictions is None else ("Inputs, accuracy and abstentions are of the predictions.",)
    return Table(("class", "inputs", "accuracy", "abstained", *certified), tuple(rows), "By true class", notes)
