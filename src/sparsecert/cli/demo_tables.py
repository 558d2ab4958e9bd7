"""The paper's headline in a minute: the shipped models on the shipped digits, beside the published figures.

OUT/mnist-sample/lattice-28x1/certify.jsonl        28 fixed masks, exact, in seconds
OUT/mnist-sample/k45/certify-sequential.jsonl      k = 45, sequential sampling
OUT/mnist-sample/k45/certify.jsonl                 k = 45, a fixed number of samples, on request
OUT/figures/headline, digits                       certified accuracy; the first digits
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from sparsecert import datasets, records
from sparsecert.cli.voting import record
from sparsecert.datasets import Dataset
from sparsecert.errors import InputError
from sparsecert.modelfile import shipped_models
from sparsecert.procedures import Exact, Fixed, Procedure, Sequential
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
from sparsecert.reports.pictures import image, retained, show, with_null
from sparsecert.schemes import FixedMasks, from_config
from sparsecert.smoothed import Smoothed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DATA = "mnist-sample"
SHOWN = 8
RHOS = 1, 4, 8, 11
AS_PUBLISHED = "for the paper's 1,000 + 10,000 samples per image: sparsecert demo --n0 1000 --n 10000"
ACCURACY, MEDIAN = "accuracy (abstained)", "median certified robustness"


PAPER = (
    "Levine & Feizi, Robustness Certificates for Sparse Adversarial Attacks by Randomized Ablation, AAAI 2020 "
    "(arXiv:1911.09272), Table 1"
)
PAPER_ACCURACY, PAPER_MEDIAN = "96.72% (0.45%)", "8"
N0, N, ALPHA = 1_000, 10_000, 0.05  # the paper's
PARTITIONS = (
    "Hammoudeh & Lowd, Provable Robustness Against a Union of L0 Adversarial Attacks, AAAI 2024 (arXiv:2302.11628), "
    "abstract"
)
PARTITIONS_MEDIAN = "12"


@dataclass
class Demo:
    """The demo's settings; n0 and n None: sequential sampling, limit None: all 100 digits."""

    out: Path
    device: str = "cpu"
    precision: str | None = None
    seed: int = 0
    limit: int | None = None
    n0: int | None = None
    n: int | None = None

    @cached_property
    def data(self) -> Dataset:
        return datasets.load(DATA)

    def run(self) -> Iterator[tuple[Table, list[Path]]]:
        """Yields each table with its figures once its digits are certified; a rerun resumes.

        First 28 fixed masks, then k = 45 with sequential sampling, or with n0 + n samples if given.
        """
        fixed = self._certified("mnist-lattice-28", "lattice-28x1/certify.jsonl", Exact(), None)
        exact = summarise(fixed)
        yield _exact_table(fixed, exact), []
        if self.n0 is None and self.n is None:
            random = self._certified("mnist-k45", "k45/certify-sequential.jsonl", Sequential(n0=N0), ALPHA)
        else:
            random = self._certified("mnist-k45", "k45/certify.jsonl", Fixed(self.n0 or N0, self.n or N), ALPHA)
        sampled = summarise(random)
        drawn = write_curves([exact, sampled], self.out / "figures" / "headline")
        drawn += write_figure(lambda: _digits(self.data, fixed, random), self.out / "figures" / "digits")
        yield _sampled_table(random, sampled), drawn

    def _certified(self, name: str, file: str, procedure: Procedure, alpha: float | None) -> Records:
        """The records of a shipped model: compressed ones are read, others are resumed."""
        path, model = self.out / DATA / file, shipped_models()[name]
        there = find_records(path)
        if there is not None and there != path:
            return self._checked(records.read(there))
        smoothed = Smoothed.load(model, device=self.device, precision=self.precision)
        return record(
            "certify", f"certifying {path.parent.name}", smoothed, model, self.data, path, procedure,
            alpha=alpha, seed=self.seed, limit=self.limit,
        )  # fmt: skip

    def _checked(self, found: Records) -> Records:
        """The records; refuses those made with other settings."""
        there = {**found.header.run, "inputs": found.header.run["data"]["inputs"]}
        wanted = {"seed": self.seed, "precision": self.precision, "n0": self.n0, "n": self.n}
        wanted["inputs"] = len(self.data.spaced_indices(self.limit))
        for key, value in wanted.items():
            if key in there and value is not None and there[key] != value:
                raise InputError(
                    f"{found.path} was made with {key} {there[key]}, not {value}; choose another --out folder"
                )
        return found


def _exact_table(found: Records, exact: Summary) -> Table:
    digits = ", ".join(f"{line.label} ({line.radius})" for line in _first(found))
    rows = [
        (ACCURACY, format_percent(exact.accuracy), NOT_APPLICABLE),
        (MEDIAN, format_median(exact.median), PARTITIONS_MEDIAN),
    ]
    return _table(
        "MNIST, 28 fixed masks of 28 of 784 pixels each", exact, rows,
        f"the first digits, each with its certified radius: {digits}",
        "all 28 masks vote and nothing is estimated: certificates are deterministic, without alpha",
        _uncertain(exact),
        f"published: the largest median over numbers of masks: {PARTITIONS}",
    )  # fmt: skip


def _sampled_table(found: Records, sampled: Summary) -> Table:
    rows = [
        (ACCURACY, f"{format_percent(sampled.accuracy)} ({format_percent(sampled.abstained)})", PAPER_ACCURACY),
        (MEDIAN, format_median(sampled.median), PAPER_MEDIAN),
    ]
    fixed = found.header.run.get("sampling") is None
    if fixed:
        by_corollary_1 = format_median(summarise(found, bound="one-sided").median)
        rows.append((f"{MEDIAN} by Corollary 1", by_corollary_1, PAPER_MEDIAN))
    return _table(
        "MNIST, k = 45 of 784 pixels retained", sampled, rows,
        _uncertain(sampled),
        f"published: all 10,000 test images, medians by Corollary 1; measured: Corollary 2: {PAPER}",
        *(() if fixed else (AS_PUBLISHED,)),
    )  # fmt: skip


def _table(caption: str, summary: Summary, rows: list[tuple[str, str, str]], *notes: str) -> Table:
    """The rows, certified accuracy, and notes after the settings."""
    for rho in RHOS:
        share = format_percent(summary.certified_accuracy_at(rho) or 0.0)
        rows.append((f"certified against {_pixels(rho)}", share, NOT_APPLICABLE))
    settings = settings_line({name: text for name, text in run_settings(summary).items() if name != "bound"})
    return Table(("", "measured", "published"), tuple(rows), caption, (settings, *notes))


def _uncertain(summary: Summary) -> str:
    error = 50 / summary.inputs**0.5
    return (
        f"measured on {summary.inputs} evenly spaced MNIST test images: the standard error of a share near one "
        f"half is {error:.1f} points; the median is as uncertain"
    )


def _first(found: Records) -> list[Record]:
    return sorted(found.lines, key=lambda line: line.example)[:SHOWN]


def _pixels(count: int) -> str:
    return "1 pixel" if count == 1 else f"{count} pixels"


def _digits(data: Dataset, fixed: Records, random: Records) -> Figure:
    """The first digits, an ablated copy of each per kind of mask, and its certified answer."""
    from matplotlib.figure import Figure

    run = random.header.run
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
            shown = "no certificate" if line.radius is None else answer
            show(figure.add_subplot(3, SHOWN, row * SHOWN + place + 1), with_null(grey[None], mask), shown)
    return figure
