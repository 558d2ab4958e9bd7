"""The paper's headline on this machine: the shipped k = 45 model on the shipped images, at the paper's settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sparsecert import datasets
from sparsecert.published import published
from sparsecert.records import Records
from sparsecert.reports import Summary, summarise, write_curves
from sparsecert.reports.comparison import NOT_APPLICABLE, Table, facts, median, percent, sentence
from sparsecert.reports.drawing import write_figure
from sparsecert.reproduce.cell import Cell
from sparsecert.reproduce.pictures import image, retained, show, with_null
from sparsecert.reproduce.study import CERTIFY, Study
from sparsecert.schemes import from_config

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODEL, DATA, CELL = "mnist-k45", "mnist-sample", Cell(45)
SHOWN = 8
RHOS = 1, 4, 8, 11


def headline(study: Study) -> tuple[Table, list[Path]]:
    """Certifies the sample (a run that was stopped goes on), draws the curve and a few digits; returns the table."""
    from sparsecert.modelfile import shipped

    sample, sampling = replace(study, data=DATA), study.sampling(published("table-1").sampling)
    model = shipped()[MODEL]
    if not sample.is_complete(CELL, CERTIFY, sampling, model):
        sample.make(CELL, CERTIFY, sampling, model)
    found, _ = sample.records(CELL, replace(sampling, predict_n=None))
    bounds = {bound: summarise(found, bound=bound) for bound in ("one-sided", "two-sided")}
    drawn = write_curves(list(bounds.values()), study.out / "figures" / "headline")
    drawn += write_figure(lambda: _digits(found), study.out / "figures" / "digits")
    return _table(bounds), drawn


def _table(bounds: dict[str, Summary]) -> Table:
    known = published("table-1")
    printed = next(row for row in known.rows if row.keep == CELL.keep)
    one_sided, two_sided = bounds["one-sided"], bounds["two-sided"]
    accuracy = f"{percent(one_sided.accuracy)} ({percent(one_sided.abstained)})"
    certified = {rho: percent(two_sided.certified_accuracy_at(rho) or 0.0) for rho in RHOS}
    rows = (
        ("accuracy (abstained)", accuracy, f"{printed.accuracy:.2f}% ({printed.abstained:.2f}%)"),
        ("median certified robustness, Corollary 1 (the paper's)", median(one_sided.median), median(printed.median)),
        ("median certified robustness, two-sided", median(two_sided.median), NOT_APPLICABLE),
        *((f"certified against {_pixels(rho)}, two-sided", share, NOT_APPLICABLE) for rho, share in certified.items()),
    )
    settings = {name: text for name, text in facts(two_sided).items() if name != "bound"}
    notes = (
        sentence(settings),
        f"measured on {two_sided.inputs} evenly spaced MNIST test images, accuracy from the estimation votes; "
        "published for all 10,000",
        f"with {two_sided.inputs} images a share near one half is uncertain by {50 / two_sided.inputs**0.5:.1f} points "
        "(one standard error), and so is where the median falls",
        f"published: {known.source}",
    )
    return Table(("", "measured", "published"), rows, "MNIST, k = 45 of 784 pixels retained", notes)


def _pixels(count: int) -> str:
    return "1 pixel" if count == 1 else f"{count} pixels"


def _digits(found: Records) -> Figure:
    """The first images of the sample: as they are, one ablated copy of each, and what is certified."""
    from matplotlib.figure import Figure

    data, run = datasets.load(DATA), found.header.run
    scheme = from_config(run["scheme"])
    figure = Figure(figsize=(SHOWN * 1.1, 3.1), layout="constrained")
    copies = f"one of {run['n']:,} copies with {run['scheme']['keep']} pixels retained"
    figure.suptitle(f"MNIST digits, {copies}, and the answer certified (two-sided)", fontsize=9)
    for place, line in enumerate(sorted(found.lines, key=lambda line: line.example)[:SHOWN]):
        grey = image(data, line.example)
        mask = retained(scheme, run["seed"], line.example, 0, grey.shape)
        answer = (
            "abstains" if line.radius is None else f"{data.classes[line.label or 0]}, up to\n{_pixels(line.radius)}"
        )
        show(figure.add_subplot(2, SHOWN, place + 1), grey, f"a {data.classes[line.true]}")
        show(figure.add_subplot(2, SHOWN, SHOWN + place + 1), with_null(grey, mask), answer)
    return figure
