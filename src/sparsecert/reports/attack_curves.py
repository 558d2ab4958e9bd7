"""Accuracy under attack against rho, drawn; beside certificates, with the gap between the two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sparsecert.reports.attack_tables import attack_facts, attack_labels, magnitude
from sparsecert.reports.attacks import AttackSummary
from sparsecert.reports.comparison import median, sentence, shared
from sparsecert.reports.curves import COLOURS, HEIGHT, STYLES, caption, dress, explain
from sparsecert.reports.drawing import write_figure
from sparsecert.reports.gap import Gap, Pair

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ACROSS = "rho: pixels that may be changed"
BROKEN = "#C00000"
LEAST_AREA, MOST_AREA = 8.0, 300.0  # of a bubble, in square points
MARKERS = "filled: misclassified, hollow: abstained\ntriangles: never fooled, red crosses: not sound"
OFF = -1  # where images without a certificate for the true class stand


def write_attack_curves(attacks: Sequence[AttackSummary], path: str | Path) -> list[Path]:
    """Draws a step plot of accuracy under attack against rho, one line per run; returns the files written.

    The line's height above a whole rho is the share of images for which no change of up to rho pixels was found.
    """
    return write_figure(lambda: _attacks(attacks), path)


def write_gaps(gaps: Sequence[Gap], attacks: Sequence[AttackSummary], path: str | Path) -> list[Path]:
    """Draws certificates and attacks of the same images: both curves with the gap between them, and image by image.

    `attacks` are the runs of the gaps' attacks, in any order. Returns the files written.
    """
    return write_figure(lambda: _gaps(gaps, attacks), path)


def _attacks(attacks: Sequence[AttackSummary]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, HEIGHT), layout="constrained")
    axes = figure.add_subplot()
    rhos = max(len(summary.accuracy_under_attack) for summary in attacks)
    for place, (summary, name) in enumerate(zip(attacks, attack_labels(attacks), strict=True)):
        label = f"{name}: median {magnitude(summary.median)}"
        _steps(axes, summary.accuracy_under_attack, rhos, label, place, STYLES[place % len(STYLES)])
    dress(axes, rhos, ACROSS, "images not fooled")
    facts = sentence(shared([attack_facts(summary) for summary in attacks]))
    explain(figure, axes, "Accuracy under attack; dotted line: median", caption(facts))
    return figure


def _steps(axes: Axes, shares: Sequence[float], rhos: int, label: str, place: int, style: object) -> list[float]:
    """Steps as wide as the rho they stand over, the last height going on to the end; that height at each rho."""
    heights = [100 * share for share in shares] + [100 * shares[-1]] * (rhos + 2 - len(shares))
    axes.step(
        range(-1, len(heights)),
        [heights[0], *heights],
        where="mid",
        color=COLOURS[place % len(COLOURS)],
        linestyle=style,
        linewidth=1.8,
        label=label,
        zorder=3,
    )
    return heights


def _gaps(gaps: Sequence[Gap], attacks: Sequence[AttackSummary]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, HEIGHT), layout="constrained")
    left, right = figure.subplots(1, 2)
    known = {summary.path: summary for summary in attacks}
    names = [""] if len(gaps) == 1 else [f"{name}: " for name in attack_labels([known[gap.attack] for gap in gaps])]
    rhos = max(len(shares) for gap in gaps for shares in (gap.accuracy_under_attack, gap.certified_accuracy))
    for place, (gap, name) in enumerate(zip(gaps, names, strict=True)):
        _between(left, gap, name, rhos, place)
        _image_by_image(right, gap, place, max(len(one.accuracy_under_attack) for one in gaps))
    dress(left, rhos, ACROSS, "images")
    _dress_images(right, gaps)
    facts = sentence(shared([attack_facts(known[gap.attack]) for gap in gaps]))
    images = " or ".join(dict.fromkeys(f"{len(gap.pairs)}" for gap in gaps))
    explain(figure, left, f"Certified accuracy and accuracy under attack, {images} images of both", caption(facts))
    return figure


def _between(axes: Axes, gap: Gap, name: str, rhos: int, place: int) -> None:
    """Both curves of one pair of runs, and the gap shaded."""
    attacked = f"{name}not fooled by the attack: median {magnitude(gap.median_attacked)}"
    certified = f"{name}certified: median {median(gap.median_certified)}"
    above = _steps(axes, gap.accuracy_under_attack, rhos, attacked, place, "--")
    below = _steps(axes, [*gap.certified_accuracy, 0.0], rhos, certified, place, "-")
    colour = COLOURS[place % len(COLOURS)]
    axes.fill_between(
        range(-1, rhos + 1),
        above[:1] + above[: rhos + 1],
        below[:1] + below[: rhos + 1],
        step="mid",
        color=colour,
        alpha=0.15,
        linewidth=0,
    )


def _image_by_image(axes: Axes, gap: Gap, place: int, beyond: int) -> None:
    """Each image where its radius and its distance meet; what was never fooled stands `beyond`, as a triangle."""
    most = max(Counter(map(_spot, gap.pairs)).values())
    for found in (True, False):
        for abstained in (True, False):
            chosen = [p for p in gap.pairs if (p.distance is not None, p.abstained) == (found, abstained)]
            spots = Counter(_spot(pair) for pair in chosen if not pair.broken)
            _bubbles(axes, spots, most, COLOURS[place % len(COLOURS)], abstained, "o" if found else "^", beyond)
    _bubbles(axes, Counter(_spot(pair) for pair in gap.pairs if pair.broken), most, BROKEN, False, "X", beyond)


def _spot(pair: Pair) -> tuple[int, int | None]:
    return OFF if pair.radius is None else pair.radius, pair.distance


def _bubbles(
    axes: Axes,
    spots: Counter[tuple[int, int | None]],
    most: int,
    colour: str,
    hollow: bool,
    marker: str,
    beyond: int,
) -> None:
    """A marker at each spot, its area growing with the images there."""
    if not spots:
        return
    areas = [LEAST_AREA + (MOST_AREA - LEAST_AREA) * (count / most if most > 1 else 0.1) for count in spots.values()]
    across, up = [radius for radius, _ in spots], [beyond if to is None else to for _, to in spots]
    face = "none" if hollow else colour
    axes.scatter(across, up, s=areas, marker=marker, facecolors=face, edgecolors=colour, alpha=0.6, zorder=3)


def _dress_images(axes: Axes, gaps: Sequence[Gap]) -> None:
    """Axes, and the ground on which no attack can change the answer."""
    from matplotlib.ticker import MaxNLocator

    radius = max([0, *(pair.radius for gap in gaps for pair in gap.pairs if pair.radius is not None)])
    highest = max(len(gap.accuracy_under_attack) for gap in gaps)
    radii = range(radius + 1)
    axes.bar(radii, [one + 1 for one in radii], width=1.0, bottom=-0.5, color="0.88", linewidth=0, zorder=0)
    axes.axvline(-0.5, color="0.6", linewidth=0.8, zorder=1)
    axes.set_xlim(OFF - 0.5, radius + 0.5)
    axes.set_ylim(-0.5, highest + 1)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=12, steps=[1, 2, 5, 10], integer=True))
    axes.set_xlabel(f"certified radius ({OFF}: not certified for the true class)\n{MARKERS}", fontsize=8)
    axes.set_ylabel("pixels that the attack changed")
    axes.set_title("Image by image; grey: ruled out by the certificates", loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
