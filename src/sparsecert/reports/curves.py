"""Plots of certified accuracy against rho. The same summaries and matplotlib give the same bytes."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sparsecert.errors import InputError
from sparsecert.reports.comparison import format_median, radius_name, run_names, settings_line, shared_settings
from sparsecert.reports.drawing import write_figure
from sparsecert.reports.summary import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe & Ito's palette, safe for every kind of colour vision, without its yellow, which is too light on white. The line
# styles distinguish runs in black and white, and once the colours repeat.
COLOURS = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"
HEIGHT = 4.8  # inches
MAX_RUNS_INSIDE = 8
LONGEST_LABEL_INSIDE = 44
NO_BREAK = "\N{NO-BREAK SPACE}"
X_LABELS = {  # by `radius_name`
    "rho": "rho: perturbed units that provably cannot change the answer",
    "patch side": "side of a square patch that provably cannot change the answer",
    "rho or patch side": "rho, or side of a patch, that provably cannot change the answer",
}
Y_LABEL = "inputs certified for the true class"
TITLE = "Certified accuracy; dots and dotted line: median"
STYLES = "-", "--", "-.", (0, (1, 1)), (0, (5, 1, 1, 1, 1, 1))


def write_curves(summaries: Sequence[Summary], path: str | Path) -> list[Path]:
    """Plots certified accuracy against rho, one step curve per run; returns the files written.

    A path without a suffix gives both a PNG and an SVG.
    """
    for summary in summaries:
        if not summary.certifies:
            raise InputError(f"{summary.path} holds predictions, which certify nothing; name certify records")
    return write_figure(lambda: _figure(summaries), path)


def _figure(summaries: Sequence[Summary]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, HEIGHT), layout="constrained")
    axes = figure.add_subplot()
    for place, (summary, label) in enumerate(zip(summaries, run_names(summaries), strict=True)):
        draw_run(axes, summary, label, place, STYLES[place % len(STYLES)])
    rhos = max(len(summary.certified_accuracy) for summary in summaries)
    style_axes(axes, rhos, X_LABELS[radius_name(summaries)], Y_LABEL)
    add_caption(figure, axes, TITLE, wrap_caption(settings_line(shared_settings(summaries))))
    return figure


def draw_run(axes: Axes, summary: Summary, label: str, place: int, style: object) -> None:
    """One run's step curve, each step centred on its rho, and a dot at its median."""
    shares = [100 * share for share in summary.certified_accuracy] or [0.0]
    label = f"{label}: median {format_median(summary.median)}"
    colour = draw_steps(axes, [*shares, 0.0], label, place, style)
    if summary.median is not None:
        axes.plot(summary.median, shares[summary.median], "o", color=colour, markersize=5, zorder=4, clip_on=False)


def draw_steps(axes: Axes, heights: Sequence[float], label: str, place: int, style: object) -> str:
    """Draws the heights at rho = 0, 1, ... as steps centred on each rho; returns their colour."""
    colour = COLOURS[place % len(COLOURS)]
    axes.step(
        range(-1, len(heights)),
        [heights[0], *heights],
        where="mid",
        color=colour,
        linestyle=style,
        linewidth=1.8,
        label=label,
        zorder=3,
    )
    return colour


def style_axes(axes: Axes, rhos: int, x_label: str, y_label: str) -> None:
    """Axes, grid, and the line at one half, where medians are read."""
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    axes.axhline(50, color="0.4", linestyle=":", linewidth=1, zorder=2)
    axes.set_xlim(-0.5, max(rhos, 1) + 0.5)
    axes.set_ylim(0, 100)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=16, steps=[1, 2, 5, 10], integer=True))
    axes.set_yticks(range(0, 101, 10))
    axes.yaxis.set_major_formatter(PercentFormatter(decimals=0))
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.grid(color="0.9", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def add_caption(figure: Figure, axes: Axes, title: str, caption: str) -> None:
    """Title, legend and caption; a legend that would cover the curves goes below them."""
    axes.set_title(title, loc="left", fontsize=11)
    names = axes.get_legend_handles_labels()[1]
    if len(names) > MAX_RUNS_INSIDE or max(map(len, names)) > LONGEST_LABEL_INSIDE:
        figure.set_figheight(HEIGHT + 0.16 * len(names))
        legend = figure.legend(loc="outside lower left", fontsize=7, frameon=False, handlelength=4, alignment="left")
        legend.set_title(caption)
        heading = legend.get_title()
    else:
        legend = axes.legend(loc="upper right", fontsize=8, framealpha=0.9, handlelength=4)
        heading = figure.supxlabel(caption, x=0.01, ha="left")
    heading.set(color="0.35", fontsize=7)
    for text in (heading, *legend.get_texts()):
        text.set_parse_math(False)  # a path or a name may hold a dollar sign


def wrap_caption(text: str) -> str:
    """Wraps comma-separated text between items, never inside one."""
    unbroken = [item.replace(" ", NO_BREAK) for item in text.split(", ")]
    return textwrap.fill(", ".join(unbroken), 110).replace(NO_BREAK, " ")
