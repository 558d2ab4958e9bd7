"""Models that certify many pixels beside models trained for accuracy: their tables, and docs/figures/trade-offs.svg.

python -m results.trade_offs
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from results.markdown import markdown
from results.printed import RESULTS
from sparsecert import records
from sparsecert.records import is_exact
from sparsecert.reports import Summary, summarise
from sparsecert.reports.comparison import NOT_APPLICABLE, format_median, format_percent
from sparsecert.reports.curves import draw_run, label_axes, style_axes
from sparsecert.reports.drawing import SCREEN, write_figure
from studies.levine_feizi_2020.published import published_medians
from studies.levine_feizi_2020.study import RESULTS as STUDY
from studies.levine_feizi_2020.tables import accuracy_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURE = RESULTS.parent / "docs" / "figures" / "trade-offs.svg"
RHOS = {"mnist": (4, 8, 12, 16, 20, 30), "cifar10": (4, 8, 12, 16, 20, 24), "imagenette": (20, 50, 100, 200, 300)}
TITLES = {"mnist": "MNIST", "cifar10": "CIFAR-10", "imagenette": "Imagenette, 224 x 224"}


@dataclass(frozen=True)
class Model:
    """A model by its records; `by` is the rule that elects, or the bound of random masks.

    `networks` of other seeds are averaged into its votes.
    """

    path: Path
    recipe: str
    by: str
    networks: int = 1

    @property
    def name(self) -> str:
        """Its masks."""
        folder = self.path.name.removesuffix("-averaged")
        return f"random, k = {int(folder[1:]):,}" if folder[1:].isdigit() else folder

    @property
    def averaged(self) -> str:
        """How many networks vote as one, to stand behind a name."""
        return f", {self.networks} networks averaged" if self.networks > 1 else ""

    @cache  # noqa: B019  there are a dozen of them
    def summary(self) -> Summary:
        """Its certificates; those of random masks are predicted from copies of their own where the study has them."""
        largest = max(self.path.glob("certify*.jsonl.xz"), key=lambda path: path.stat().st_size)
        found, predictions = records.read(largest), self.path / "predict.jsonl.xz"
        if is_exact(found.header):
            return summarise(found, rule=self.by)
        return summarise(found, bound=self.by, predictions=records.read(predictions) if predictions.exists() else None)

    def published(self, data: str) -> str:
        """The best published median by such masks."""
        known = published_medians("partitions" if self.summary().alpha is None else "random-masks").of(data)
        return NOT_APPLICABLE if known is None else str(known)


MODELS = {
    "mnist": (
        Model(STUDY / "mnist" / "lattice-28x1", "the paper's", "pairwise"),
        Model(STUDY / "mnist" / "lattice-60x1", "the paper's", "pairwise"),
        Model(RESULTS / "mnist" / "spread-100", "`vote-mnist`", "pairwise"),
        Model(RESULTS / "mnist" / "spread-160", "`vote-mnist`", "pairwise"),
        Model(STUDY / "mnist" / "k30", "the paper's", "two-sided"),
        Model(RESULTS / "mnist" / "k8", "`vote-mnist-random`", "pairwise"),
    ),
    "cifar10": (
        Model(STUDY / "cifar10" / "lattice-40x1", "`modern-cifar10`", "pairwise"),
        Model(STUDY / "cifar10" / "lattice-64x1", "`modern-cifar10`", "pairwise"),
        Model(RESULTS / "cifar10" / "grid-8", "`grid-cifar10`", "pairwise"),
        Model(RESULTS / "cifar10" / "grid-8-averaged", "`grid-cifar10`", "pairwise", networks=8),
        Model(STUDY / "cifar10" / "k25", "`modern-cifar10`", "two-sided"),
        Model(RESULTS / "cifar10" / "k16", "`vote-cifar10-random`", "pairwise"),
    ),
    "imagenette": (
        Model(STUDY / "imagenette" / "k1000", "`modern-imagenette`", "one-sided"),
        Model(STUDY / "imagenette" / "k500", "`modern-imagenette`", "one-sided"),
        Model(RESULTS / "imagenette" / "grid-28", "`grid-imagenette`", "pairwise"),
    ),
}


def model(data: str, folder: str) -> Model:
    """The model of these masks."""
    (found,) = (one for one in MODELS[data] if one.path.name == folder)
    return found


def trade_off(data: str) -> str:
    """The accuracy that each model gives up, and what it certifies."""
    headers = "masks", "recipe", "alpha", "images", "passes an image", "accuracy (abstained)", "median", "published"
    rows = []
    for one in MODELS[data]:
        summary = one.summary()
        exact = summary.alpha is None
        certificate = one.name, one.recipe + one.averaged, "exact" if exact else str(summary.alpha)
        size = f"{summary.inputs:,}", f"{one.networks * summary.mean_samples:,.0f}"
        accuracy = format_percent(summary.accuracy) if exact else accuracy_text(summary)
        medians = format_median(summary.median), one.published(data)
        shares = (format_percent(summary.certified_accuracy_at(rho) or 0.0) for rho in RHOS[data])
        rows.append((*certificate, *size, accuracy, *medians, *shares))
    return markdown((*headers, *(f"{rho} pixels" for rho in RHOS[data])), rows)


def figure() -> Figure:
    """A panel for each data set, a curve for each model; dashed: trained for accuracy."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    drawn = Figure(figsize=(12, 4.2), layout="constrained")
    for axes, (data, models) in zip(drawn.subplots(1, 3), MODELS.items(), strict=True):
        for place, one in enumerate(models):
            label = f"{one.name}{one.averaged}, {format_percent(one.summary().accuracy)}"
            draw_run(axes, one.summary(), label, place, "-" if one.path.is_relative_to(RESULTS) else "--")
        widest = max(len(one.summary().certified_accuracy) for one in models)
        style_axes(axes, widest, SCREEN)
        label_axes(drawn, [axes], "perturbed pixels", "images certified for the true class")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
        axes.set_title(TITLES[data], loc="left", fontsize=11)
        axes.legend(loc="upper right", fontsize=7, framealpha=0.9, handlelength=3)
    return drawn


if __name__ == "__main__":
    for path in write_figure(figure, FIGURE):
        print(f"wrote {path}")
