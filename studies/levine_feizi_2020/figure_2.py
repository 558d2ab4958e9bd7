"""Figure 2: how often a mask retains any of rho perturbed pixels, by k."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sparsecert.reports.curves import COLOURS, DASHES
from sparsecert.reports.drawing import write_figure
from sparsecert.schemes import Uniform

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNITS, LARGEST_RHO = 784, 60
KEEPS = 5, 15, 25, 45, 65, 85, 100


def figure_2(path: Path) -> list[Path]:
    """Writes delta against rho for MNIST-sized images; nothing is measured."""
    return write_figure(_figure, path)


def _figure() -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.4), layout="constrained")
    axes = figure.add_subplot()
    for place, keep in enumerate(KEEPS):
        scheme = Uniform(UNITS, keep)
        deltas = [float(scheme.delta(rho)) for rho in range(LARGEST_RHO + 1)]
        colour, style = COLOURS[place % len(COLOURS)], DASHES[place % len(DASHES)]
        axes.plot(range(LARGEST_RHO + 1), deltas, label=f"k = {keep}", linewidth=1.8, color=colour, linestyle=style)
    axes.axhline(0.5, color="0.4", linestyle=":", linewidth=1)
    axes.text(LARGEST_RHO, 0.505, "nothing is certified above", ha="right", va="bottom", fontsize=8, color="0.35")
    axes.set_xlim(0, LARGEST_RHO)
    axes.set_ylim(0, 1)
    axes.set_xlabel("rho: perturbed pixels")
    axes.set_ylabel("delta: chance that a mask retains one of them")
    axes.set_title(f"Theorem 1's bound for d = {UNITS} pixels, k of them retained", loc="left", fontsize=11)
    axes.grid(color="0.9", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right upper", fontsize=8, handlelength=4, frameon=False)
    return figure
