"""Plots of certified accuracy against rho. The same summaries and matplotlib give the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsecert.errors import InputError
from sparsecert.reports.comparison import format_median, radius_name, run_names, settings_line, shared_settings
from sparsecert.reports.drawing import SCREEN, Style, text_width, wrap_text, write_figure
from sparsecert.reports.summary import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe & Ito's palette, safe for every kind of colour vision, without its yellow, which is too light on white. The line
# styles distinguish runs in black and white, and once the colours repeat.
COLOURS = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"
HANDLE, COLUMN_GAP = 4.0, 2.0  # of a legend, in its font size
Y_LABEL = "inputs certified for the true class"
TITLE = "Certified accuracy; dots and dotted line: median"
BANDS = "shaded: 95% intervals (exact binomial), of runs on part of the data set"
DASHES = "-", "--", "-.", (0, (1, 1)), (0, (5, 1, 1, 1, 1, 1))


def write_curves(
    summaries: Sequence[Summary], path: str | Path, style: Style = SCREEN, panels: Sequence[str] = ()
) -> list[Path]:
    """Plots certified accuracy against rho, one step curve per run; returns the files written.

    `panels` names the panel of each run (default: one for all). A path without a suffix gives both a PNG and an SVG.
    """
    for summary in summaries:
        if not summary.certifies:
            raise InputError(f"{summary.path} holds predictions, which certify nothing; name certify records")
    return write_figure(lambda: _figure(summaries, style, panels), path, style)


def _figure(summaries: Sequence[Summary], style: Style = SCREEN, panels: Sequence[str] = ()) -> Figure:
    from matplotlib.figure import Figure

    settings = settings_line(shared_settings(summaries))
    places = list(dict.fromkeys(panels)) or [""]
    figure = Figure(figsize=(style.width, style.height), layout="constrained")
    axes = dict(zip(places, figure.subplots(1, len(places), sharey=True, squeeze=False)[0], strict=True))
    banded = False
    for place, (summary, label) in enumerate(zip(summaries, run_names(summaries), strict=True)):
        banded |= draw_run(
            axes[panels[place] if panels else ""], summary, label, place, DASHES[place % len(DASHES)], style
        )
    rhos = max(len(summary.certified_accuracy) for summary in summaries)
    for title, one in axes.items():
        style_axes(one, rhos, style, 16 // len(axes))
        one.set_title(title, fontsize=9)
    label_axes(figure, list(axes.values()), *_axis_labels(summaries, style))
    add_legend(figure, list(axes.values()), TITLE, "; ".join([settings, *([BANDS] if banded else [])]), style)
    return figure


def _axis_labels(summaries: Sequence[Summary], style: Style) -> tuple[str, str]:
    radius, unit = radius_name(summaries), " or ".join(dict.fromkeys(summary.unit for summary in summaries))
    if not style.notes:
        names = {"rho": f"perturbed {unit}", "patch side": f"side of the patch ({unit})"}
        return names.get(radius, f"perturbed {unit}, or side of the patch"), "certified accuracy"
    names = {"rho": f"rho: perturbed {unit}", "patch side": "side of a square patch"}
    return f"{names.get(radius, 'rho, or side of a patch,')} that provably cannot change the answer", Y_LABEL


def draw_run(axes: Axes, summary: Summary, label: str, place: int, dashes: object, style: Style = SCREEN) -> bool:
    """One run's step curve, each step centred on its rho, and a dot at its median; returns whether it has a band."""
    shares = [*summary.certified_accuracy, 0.0]
    label = f"{label}: median {format_median(summary.median)}" if style.notes else label
    colour = draw_steps(axes, [100 * share for share in shares], label, place, dashes, style.line)
    if summary.median is not None and style.notes:
        height = 100 * shares[summary.median]
        axes.plot(summary.median, height, "o", color=colour, markersize=5, zorder=4, clip_on=False)
    return draw_band(axes, summary.band(shares), colour)


def draw_steps(
    axes: Axes, heights: Sequence[float], label: str, place: int, dashes: object, width: float = SCREEN.line
) -> str:
    """Draws the heights at rho = 0, 1, ... as steps centred on each rho; returns their colour."""
    colour = COLOURS[place % len(COLOURS)]
    axes.step(
        range(-1, len(heights)),
        [heights[0], *heights],
        where="mid",
        color=colour,
        linestyle=dashes,
        linewidth=width,
        label=label,
        zorder=3,
    )
    return colour


def draw_band(axes: Axes, intervals: Sequence[tuple[float, float]], colour: str) -> bool:
    """Shades the confidence interval of each share, at rho = 0, 1, ...; returns whether there are any."""
    if intervals:
        lows, highs = ([100 * side for side in sides] for sides in zip(*intervals, strict=True))
        where = range(-1, len(lows))
        shade: dict[str, Any] = {"step": "mid", "color": colour, "alpha": 0.15, "linewidth": 0, "zorder": 1}
        axes.fill_between(where, [lows[0], *lows], [highs[0], *highs], **shade)
    return bool(intervals)


def style_axes(axes: Axes, rhos: int, style: Style, ticks: int = 16) -> None:
    """Limits, ticks, grid and, among notes, the line at one half, where medians are read."""
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    if style.notes:
        axes.axhline(50, color="0.4", linestyle=":", linewidth=1, zorder=2)
    axes.set_xlim(-0.5, max(rhos, 1) + 0.5)
    axes.set_ylim(0, 100)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=ticks if style.notes else 8, steps=[1, 2, 5, 10], integer=True))
    axes.set_yticks(range(0, 101, 10 if style.notes else 20))
    axes.yaxis.set_major_formatter(PercentFormatter(decimals=0))
    axes.grid(color="0.9", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def label_axes(figure: Figure, panels: Sequence[Axes], x_label: str, y_label: str) -> None:
    """Labels the axes of panels side by side, which share the vertical one."""
    room = 0.85 * float(figure.get_figwidth()) / len(panels)
    for axes in panels:
        axes.set_xlabel(wrap_text(x_label, room, 10))
    panels[0].set_ylabel(y_label)


def add_legend(figure: Figure, panels: Sequence[Axes], title: str, caption: str, style: Style) -> None:
    """The title, and below the axes the legend under the caption, in as many lines as they need; the figure grows."""
    found = [axes.get_legend_handles_labels() for axes in panels]
    lines, labels = [line for each, _ in found for line in each], [label for _, each in found for label in each]
    size, em = style.text, style.text / 72
    room = 0.96 * float(figure.get_figwidth()) - 2 * em  # letters are drawn up to 4% wider than measured, on whole dots
    label_room = room - (HANDLE + 1.5) * em
    widest = max(text_width(label, size) for label in labels) + (HANDLE + COLUMN_GAP + 1) * em
    columns = max(1, min(3, len(labels), int(room / widest)))
    wrapped = [wrap_text(label, label_room, size) for label in labels]
    legend = figure.legend(
        lines,
        wrapped,
        loc="outside lower left",
        fontsize=size,
        frameon=False,
        handlelength=HANDLE,
        columnspacing=COLUMN_GAP,
        alignment="left",
        ncols=columns,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)  # a path or a name may hold a dollar sign
    rows = sum(label.count("\n") + 1 for label in wrapped) / columns
    if style.notes:
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        legend.set_title(wrap_text(caption, room, size))
        heading = legend.get_title()
        heading.set(color="0.35", fontsize=size, parse_math=False)
        rows += heading.get_text().count("\n") + 1
    figure.set_figheight(float(figure.get_figheight()) + 1.5 * em * rows)
