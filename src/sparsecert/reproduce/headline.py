"""The paper's headline in a minute: the shipped models on the shipped digits, beside the published figures.

OUT/mnist-sample/lattice-28x1/certify.jsonl        28 fixed masks, exact: the first answers within seconds
OUT/mnist-sample/k45/certify-sequential.jsonl      k = 45, as many samples as each radius needs
OUT/mnist-sample/k45/certify.jsonl                 k = 45, a fixed number of samples, where one is asked for
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsecert import datasets, records
from sparsecert.errors import InputError
from sparsecert.procedures.exact import Exact
from sparsecert.procedures.sequential import Sequential
from sparsecert.published import published, published_medians
from sparsecert.records import Record, Records, find_records
from sparsecert.reports import Summary, summarise, write_curves
from sparsecert.reports.comparison import (
    NOT_APPLICABLE,
    Table,
    format_median,
    format_percent,
    run_settings,
    settings_line,
)
from sparsecert.reports.drawing import write_figure
from sparsecert.reproduce.cell import Cell, FixedCell
from sparsecert.reproduce.pictures import image, retained, show, with_null
from sparsecert.reproduce.study import CERTIFY, Study
from sparsecert.schemes import Choice, FixedMasks, from_config

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DATA = "mnist-sample"
FIXED, FIXED_MODEL = FixedCell(choice=Choice.parse("lattice-28x1")), "mnist-lattice-28"
RANDOM, RANDOM_MODEL = Cell(45), "mnist-k45"
SHOWN = 8
RHOS = 1, 4, 8, 11
AS_PUBLISHED = "for the paper's 1,000 + 10,000 samples an image: sparsecert reproduce headline --n0 1000 --n 10000"
ACCURACY, MEDIAN = "accuracy (abstained)", "median certified robustness"


def headline(study: Study) -> Iterator[tuple[Table, list[Path]]]:
    """A table at a time, as soon as its digits are certified, with the figures drawn; a run that was stopped goes on.

    First the votes of 28 fixed masks, then k = 45 by sequential sampling, or by the numbers of samples asked for.
    """
    study = replace(study, data=DATA)
    fixed = _certified(study, FIXED, FIXED_MODEL, f"{CERTIFY}.jsonl", FIXED.choice.numbers["parts"], exactly=Exact())
    exact = summarise(fixed)
    yield _exact_table(fixed, exact), []
    known = published("table-1").sampling
    how: dict[str, Any] = {"alpha": known.alpha, "seed": study.seed}
    if study.n0 is None and study.n is None:
        how["sampling"] = Sequential(n0=known.n0)
        random = _certified(study, RANDOM, RANDOM_MODEL, f"{CERTIFY}-sequential.jsonl", None, **how)
    else:
        asked = study.sampling(known)
        how |= {"n0": asked.n0, "n": asked.n}
        random = _certified(study, RANDOM, RANDOM_MODEL, f"{CERTIFY}.jsonl", asked.n0 + asked.n, **how)
    sampled = summarise(random)
    drawn = write_curves([exact, sampled], study.out / "figures" / "headline")
    drawn += write_figure(lambda: _digits(fixed, random), study.out / "figures" / "digits")
    yield _sampled_table(random, sampled), drawn


def _certified(study: Study, cell: Cell, name: str, file: str, copies: int | None, **how: Any) -> Records:
    """The records of a shipped model on the sample: those that are there, or what is missing of them made now."""
    path = study.folder(cell) / file
    there = find_records(path)
    if there is None or there == path:
        from sparsecert.modelfile import shipped_models
        from sparsecert.runs import certify_dataset
        from sparsecert.smoothed import Smoothed

        model = shipped_models()[name]
        smoothed = Smoothed.load(model, device=study.device, precision=study.precision)
        with study.bars.inputs(cell, "certifying", len(study.test.spaced_indices(study.limit)), copies) as on_progress:
            certify_dataset(smoothed, model, study.test, path, limit=study.limit, on_progress=on_progress, **how)
        return records.read(path)
    found = records.read(there)
    wanted = {"seed": study.seed, "precision": study.precision, "n0": study.n0, "n": study.n}
    wanted = {key: value for key, value in wanted.items() if key in found.header.run and value is not None}
    wanted["inputs"] = len(study.test.spaced_indices(study.limit))
    run = {**found.header.run, "inputs": found.header.run["data"]["inputs"]}
    for key, value in wanted.items():
        if run[key] != value:
            raise InputError(f"{there} was made with {key} {run[key]}, not {value}; name another --out folder")
    return found


def _exact_table(found: Records, exact: Summary) -> Table:
    known = published_medians("partitions")
    digits = [f"{line.label} ({line.radius})" for line in _first(found)]
    rows = (
        (ACCURACY, format_percent(exact.accuracy), NOT_APPLICABLE),
        (MEDIAN, format_median(exact.median), format_median(known.of("mnist"))),
        *_certified_rows(exact),
    )
    notes = (
        settings_line({name: text for name, text in run_settings(exact).items() if name != "bound"}),
        f"the first digits, each with the number of pixels that it is certified against: {', '.join(digits)}",
        "all 28 masks vote and nothing is estimated, so that a certificate always holds: there is no alpha",
        _uncertain(exact),
        f"published, the largest median of any number of masks: {known.source}",
    )
    return Table(("", "measured", "published"), rows, "MNIST, 28 fixed masks of 28 of 784 pixels each", notes)


def _sampled_table(found: Records, sampled: Summary) -> Table:
    known = published("table-1")
    printed = next(row for row in known.rows if row.keep == RANDOM.keep)
    accuracy = f"{format_percent(sampled.accuracy)} ({format_percent(sampled.abstained)})"
    rows = [
        (ACCURACY, accuracy, f"{printed.accuracy:.2f}% ({printed.abstained:.2f}%)"),
        (MEDIAN, format_median(sampled.median), format_median(printed.median)),
        *_certified_rows(sampled),
    ]
    how: tuple[str, ...] = (AS_PUBLISHED,)
    if found.header.run.get("sampling") is None:
        by_corollary_1 = format_median(summarise(found, bound="one-sided").median)
        rows.insert(2, (f"{MEDIAN} by Corollary 1", by_corollary_1, format_median(printed.median)))
        how = ()
    notes = (
        settings_line({name: text for name, text in run_settings(sampled).items() if name != "bound"}),
        _uncertain(sampled),
        f"published for all 10,000 test images, medians by Corollary 1; measured by Corollary 2: {known.source}",
        *how,
    )
    return Table(("", "measured", "published"), tuple(rows), "MNIST, k = 45 of 784 pixels retained", notes)


def _certified_rows(summary: Summary) -> Iterator[tuple[str, str, str]]:
    for rho in RHOS:
        share = format_percent(summary.certified_accuracy_at(rho) or 0.0)
        yield f"certified against {_pixels(rho)}", share, NOT_APPLICABLE


def _uncertain(summary: Summary) -> str:
    error = 50 / summary.inputs**0.5
    return (
        f"measured on {summary.inputs} evenly spaced MNIST test images: a share near one half is uncertain by "
        f"{error:.1f} points (one standard error), and so is where the median falls"
    )


def _first(found: Records) -> list[Record]:
    """The records of the first images of the sample."""
    return sorted(found.lines, key=lambda line: line.example)[:SHOWN]


def _pixels(count: int) -> str:
    return "1 pixel" if count == 1 else f"{count} pixels"


def _digits(fixed: Records, random: Records) -> Figure:
    """The first images of the sample: as they are, and a copy by each kind of mask with what is certified."""
    from matplotlib.figure import Figure

    data, run = datasets.load(DATA), random.header.run
    masks, scheme = from_config(fixed.header.run["scheme"]), from_config(run["scheme"])
    assert isinstance(masks, FixedMasks)
    figure = Figure(figsize=(SHOWN * 1.1, 4.6), layout="constrained")
    kinds = f"{len(masks.table)} fixed masks (exact), and by random masks of {run['scheme']['keep']} pixels (two-sided)"
    figure.suptitle(f"MNIST digits, a copy of each, and the answer certified by {kinds}", fontsize=9)
    lines = {line.example: line for line in random.lines}
    for place, exact in enumerate(_first(fixed)):
        grey = image(data, exact.example)
        drawn = retained(scheme, run["seed"], exact.example, 0, grey.shape)
        one = masks.table[len(masks.table) // 2].reshape(grey.shape)
        show(figure.add_subplot(3, SHOWN, place + 1), grey, f"a {data.classes[exact.true]}")
        for row, (line, mask) in enumerate(((exact, one), (lines[exact.example], drawn)), start=1):
            answer = f"{data.classes[line.label or 0]}, up to\n{_pixels(line.radius or 0)}"
            shown = "abstains" if line.radius is None else answer
            show(figure.add_subplot(3, SHOWN, row * SHOWN + place + 1), with_null(grey, mask), shown)
    return figure
