"""Plots of accuracy under attack against rho, alone or with certified accuracy and the gap between the two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sparsecert.reports.attack_tables import attack_names, attack_settings, format_magnitude
from sparsecert.reports.attacks import AttackSummary
from sparsecert.reports.comparison import format_median, settings_line, shared_items
from sparsecert.reports.curves import BANDS, COLOURS, DASHES, add_legend, draw_band, draw_steps, label_axes, style_axes
from sparsecert.reports.drawing import SCREEN, Style, write_figure
from sparsecert.reports.gap import Gap, Pair

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BROKEN = "#C00000"
MIN_AREA, MAX_AREA = 8.0, 300.0  # of a bubble, in square points
MARKERS = "filled: misclassified, hollow: abstained\ntriangles: never fooled, red crosses: unsound"
NOT_CERTIFIED = -1  # where inputs without a certificate for the true class are drawn


def write_attack_curves(attacks: Sequence[AttackSummary], path: str | Path, style: Style = SCREEN) -> list[Path]:
    """Plots the share of inputs that were not fooled within rho pixels, one step curve per run; returns the files."""
    return write_figure(lambda: _attack_figure(attacks, style), path, style)


def write_gaps(
    gaps: Sequence[Gap], attacks: Sequence[AttackSummary], path: str | Path, style: Style = SCREEN
) -> list[Path]:
    """Plots certificates and attacks on the same inputs: both curves and, on a screen, input by input.

    `attacks` are those of the gaps, in any order. Returns the files written.
    """
    return write_figure(lambda: _gap_figure(gaps, attacks, style), path, style)


def _attack_figure(attacks: Sequence[AttackSummary], style: Style = SCREEN) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(style.width, style.height), layout="constrained")
    axes = figure.add_subplot()
    rhos, banded = max(len(summary.accuracy_under_attack) for summary in attacks), False
    for place, (summary, name) in enumerate(zip(attacks, attack_names(attacks), strict=True)):
        label = f"{name}: median {format_magnitude(summary.median)}" if style.notes else name
        shares = _extended(summary.accuracy_under_attack, rhos)
        colour = draw_steps(axes, _percent(shares), label, place, DASHES[place % len(DASHES)], style.line)
        banded |= draw_band(axes, summary.band(shares, summary.attacked), colour)
    style_axes(axes, rhos, style)
    label_axes(
        figure, [axes], _x_label(attacks, style), "inputs not fooled" if style.notes else "accuracy under attack"
    )
    settings = settings_line(shared_items([attack_settings(summary) for summary in attacks]))
    caption = "; ".join([settings, *([BANDS] if banded else [])])
    add_legend(figure, [axes], "Accuracy under attack; dotted line: median", caption, style)
    return figure


def _x_label(attacks: Sequence[AttackSummary], style: Style) -> str:
    unit = attacks[0].unit
    return f"rho: {unit} that may be perturbed" if style.notes else f"perturbed {unit}"


def _extended(shares: Sequence[float], rhos: int) -> list[float]:
    """The last share extended beyond the largest rho."""
    return [*shares, *[shares[-1]] * (rhos + 2 - len(shares))]


def _percent(shares: Sequence[float]) -> list[float]:
    return [100 * share for share in shares]


def _gap_figure(gaps: Sequence[Gap], attacks: Sequence[AttackSummary], style: Style = SCREEN) -> Figure:
    from matplotlib.figure import Figure

    panels = 2 if style.notes else 1
    figure = Figure(figsize=(style.width if panels == 1 else 12, style.height), layout="constrained")
    left, *right = figure.subplots(1, panels, squeeze=False)[0]
    known = {summary.path: summary for summary in attacks}
    names = [""] if len(gaps) == 1 else [f"{name}: " for name in attack_names([known[gap.attack] for gap in gaps])]
    rhos = max(len(shares) for gap in gaps for shares in (gap.accuracy_under_attack, gap.certified_accuracy))
    banded = False
    for place, (gap, name) in enumerate(zip(gaps, names, strict=True)):
        banded |= _draw_gap(left, gap, known[gap.attack], name, rhos, place, style)
        for axes in right:
            _draw_inputs(axes, gap, place, max(len(one.accuracy_under_attack) for one in gaps))
    style_axes(left, rhos, style)
    label_axes(figure, [left], _x_label(attacks, style), "inputs")
    for axes in right:
        _style_input_axes(axes, gaps, attacks[0].unit)
    settings = settings_line(shared_items([attack_settings(known[gap.attack]) for gap in gaps]))
    count = " or ".join(dict.fromkeys(f"{len(gap.pairs)}" for gap in gaps))
    title = f"Certified accuracy and accuracy under attack, {count} inputs of both"
    add_legend(figure, [left], title, "; ".join([settings, *([BANDS] if banded else [])]), style)
    return figure


def _draw_gap(axes: Axes, gap: Gap, attack: AttackSummary, name: str, rhos: int, place: int, style: Style) -> bool:
    """Both curves of one pair of runs with their bands; returns whether there are any."""
    attacked, certified = f"{name}not fooled by the attack", f"{name}certified"
    if style.notes:
        attacked += f": median {format_magnitude(gap.median_attacked)}"
        certified += f": median {format_median(gap.median_certified)}"
    banded = False
    above, below = _extended(gap.accuracy_under_attack, rhos), _extended([*gap.certified_accuracy, 0.0], rhos)
    for shares, label, dashes in ((above, attacked, "--"), (below, certified, "-")):
        colour = draw_steps(axes, _percent(shares), label, place, dashes, style.line)
        banded |= draw_band(axes, attack.band(shares, len(gap.pairs)), colour)
    return banded


def _draw_inputs(axes: Axes, gap: Gap, place: int, beyond: int) -> None:
    """Each input at (radius, distance); those never fooled as triangles at distance `beyond`."""
    most = max(Counter(map(_position, gap.pairs)).values())
    for found in (True, False):
        for abstained in (True, False):
            chosen = [p for p in gap.pairs if (p.distance is not None, p.abstained) == (found, abstained)]
            positions = Counter(_position(pair) for pair in chosen if not pair.broken)
            _bubbles(axes, positions, most, COLOURS[place % len(COLOURS)], abstained, "o" if found else "^", beyond)
    _bubbles(axes, Counter(_position(pair) for pair in gap.pairs if pair.broken), most, BROKEN, False, "X", beyond)


def _position(pair: Pair) -> tuple[int, int | None]:
    return NOT_CERTIFIED if pair.radius is None else pair.radius, pair.distance


def _bubbles(
    axes: Axes,
    positions: Counter[tuple[int, int | None]],
    most: int,
    colour: str,
    hollow: bool,
    marker: str,
    beyond: int,
) -> None:
    """A marker at each position, its area proportional to the inputs there."""
    if not positions:
        return
    areas = [MIN_AREA + (MAX_AREA - MIN_AREA) * (count / most if most > 1 else 0.1) for count in positions.values()]
    across, up = [radius for radius, _ in positions], [beyond if to is None else to for _, to in positions]
    face = "none" if hollow else colour
    axes.scatter(across, up, s=areas, marker=marker, facecolors=face, edgecolors=colour, alpha=0.6, zorder=3)


def _style_input_axes(axes: Axes, gaps: Sequence[Gap], unit: str) -> None:
    """Axes, and the grey region that the certificates rule out."""
    from matplotlib.ticker import MaxNLocator

    radius = max([0, *(pair.radius for gap in gaps for pair in gap.pairs if pair.radius is not None)])
    highest = max(len(gap.accuracy_under_attack) for gap in gaps)
    radii = range(radius + 1)
    axes.bar(radii, [one + 1 for one in radii], width=1.0, bottom=-0.5, color="0.88", linewidth=0, zorder=0)
    axes.axvline(-0.5, color="0.6", linewidth=0.8, zorder=1)
    axes.set_xlim(NOT_CERTIFIED - 0.5, radius + 0.5)
    axes.set_ylim(-0.5, highest + 1)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=12, steps=[1, 2, 5, 10], integer=True))
    axes.set_xlabel(f"certified radius ({NOT_CERTIFIED}: not certified for the true class)\n{MARKERS}", fontsize=8)
    axes.set_ylabel(f"{unit} that the attack perturbed")
    axes.set_title("Input by input; grey: ruled out by the certificates", loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
