"""Plots of accuracy under attack against rho, alone or with certified accuracy and the gap between the two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sparsecert.reports.attack_tables import attack_names, attack_settings, format_magnitude
from sparsecert.reports.attacks import AttackSummary
from sparsecert.reports.comparison import format_median, settings_line, shared_items
from sparsecert.reports.curves import COLOURS, HEIGHT, STYLES, add_caption, draw_steps, style_axes, wrap_caption
from sparsecert.reports.drawing import write_figure
from sparsecert.reports.gap import Gap, Pair

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

X_LABEL = "rho: pixels that may be perturbed"
BROKEN = "#C00000"
MIN_AREA, MAX_AREA = 8.0, 300.0  # of a bubble, in square points
MARKERS = "filled: misclassified, hollow: abstained\ntriangles: never fooled, red crosses: unsound"
NOT_CERTIFIED = -1  # where images without a certificate for the true class are drawn


def write_attack_curves(attacks: Sequence[AttackSummary], path: str | Path) -> list[Path]:
    """Plots the share of images that were not fooled within rho pixels, one step curve per run; returns the files."""
    return write_figure(lambda: _attack_figure(attacks), path)


def write_gaps(gaps: Sequence[Gap], attacks: Sequence[AttackSummary], path: str | Path) -> list[Path]:
    """Plots certificates and attacks on the same images: both curves with the gap between them, and image by image.

    `attacks` are those of the gaps, in any order. Returns the files written.
    """
    return write_figure(lambda: _gap_figure(gaps, attacks), path)


def _attack_figure(attacks: Sequence[AttackSummary]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, HEIGHT), layout="constrained")
    axes = figure.add_subplot()
    rhos = max(len(summary.accuracy_under_attack) for summary in attacks)
    for place, (summary, name) in enumerate(zip(attacks, attack_names(attacks), strict=True)):
        label = f"{name}: median {format_magnitude(summary.median)}"
        draw_steps(axes, _heights(summary.accuracy_under_attack, rhos), label, place, STYLES[place % len(STYLES)])
    style_axes(axes, rhos, X_LABEL, "images not fooled")
    settings = settings_line(shared_items([attack_settings(summary) for summary in attacks]))
    add_caption(figure, axes, "Accuracy under attack; dotted line: median", wrap_caption(settings))
    return figure


def _heights(shares: Sequence[float], rhos: int) -> list[float]:
    """Shares in percent, the last one extended beyond the largest rho."""
    return [100 * share for share in shares] + [100 * shares[-1]] * (rhos + 2 - len(shares))


def _gap_figure(gaps: Sequence[Gap], attacks: Sequence[AttackSummary]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, HEIGHT), layout="constrained")
    left, right = figure.subplots(1, 2)
    known = {summary.path: summary for summary in attacks}
    names = [""] if len(gaps) == 1 else [f"{name}: " for name in attack_names([known[gap.attack] for gap in gaps])]
    rhos = max(len(shares) for gap in gaps for shares in (gap.accuracy_under_attack, gap.certified_accuracy))
    for place, (gap, name) in enumerate(zip(gaps, names, strict=True)):
        _draw_gap(left, gap, name, rhos, place)
        _draw_images(right, gap, place, max(len(one.accuracy_under_attack) for one in gaps))
    style_axes(left, rhos, X_LABEL, "images")
    _style_image_axes(right, gaps)
    settings = settings_line(shared_items([attack_settings(known[gap.attack]) for gap in gaps]))
    images = " or ".join(dict.fromkeys(f"{len(gap.pairs)}" for gap in gaps))
    add_caption(
        figure, left, f"Certified accuracy and accuracy under attack, {images} images of both", wrap_caption(settings)
    )
    return figure


def _draw_gap(axes: Axes, gap: Gap, name: str, rhos: int, place: int) -> None:
    """Both curves of one pair of runs, and the shaded gap."""
    attacked = f"{name}not fooled by the attack: median {format_magnitude(gap.median_attacked)}"
    certified = f"{name}certified: median {format_median(gap.median_certified)}"
    above, below = _heights(gap.accuracy_under_attack, rhos), _heights([*gap.certified_accuracy, 0.0], rhos)
    colour = draw_steps(axes, above, attacked, place, "--")
    draw_steps(axes, below, certified, place, "-")
    axes.fill_between(
        range(-1, rhos + 1),
        above[:1] + above[: rhos + 1],
        below[:1] + below[: rhos + 1],
        step="mid",
        color=colour,
        alpha=0.15,
        linewidth=0,
    )


def _draw_images(axes: Axes, gap: Gap, place: int, beyond: int) -> None:
    """Each image at (radius, distance); those never fooled as triangles at distance `beyond`."""
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
    """A marker at each position, its area proportional to the images there."""
    if not positions:
        return
    areas = [MIN_AREA + (MAX_AREA - MIN_AREA) * (count / most if most > 1 else 0.1) for count in positions.values()]
    across, up = [radius for radius, _ in positions], [beyond if to is None else to for _, to in positions]
    face = "none" if hollow else colour
    axes.scatter(across, up, s=areas, marker=marker, facecolors=face, edgecolors=colour, alpha=0.6, zorder=3)


def _style_image_axes(axes: Axes, gaps: Sequence[Gap]) -> None:
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
    axes.set_ylabel("pixels that the attack perturbed")
    axes.set_title("Image by image; grey: ruled out by the certificates", loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
