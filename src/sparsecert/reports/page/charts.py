"""Charts of the page as numbers: where curves and bars stand. `templates/charts.html` draws them as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

APART = 0.1  # of the width of the radii: between them and the abstentions, so that their labels do not touch
PERCENTS = [(share / 100, f"{share}%") for share in (0, 25, 50, 75, 100)]
Ticks = Sequence[tuple[float, str]]


@dataclass(frozen=True)
class Axes:
    """Maps values to the drawing: `start` to `end` from left to right, 0 to `largest` from bottom to top."""

    start: float
    end: float
    largest: float
    x_label: str
    x_ticks: Ticks
    y_ticks: Ticks

    width: ClassVar[int] = 420
    height: ClassVar[int] = 250
    left: ClassVar[int] = 44
    right: ClassVar[int] = 412
    top: ClassVar[int] = 10
    bottom: ClassVar[int] = 212

    def x(self, value: float) -> float:
        """Distance from the left, rounded to what can be seen."""
        return round(self.left + (value - self.start) / (self.end - self.start) * (self.right - self.left), 2)

    def y(self, value: float) -> float:
        """Distance from the top."""
        return round(self.bottom - value / self.largest * (self.bottom - self.top), 2)


def whole_ticks(largest: int, most: int = 7) -> list[int]:
    """Whole numbers from 0 to the largest in steps of 1, 2 or 5 times a power of ten, at most so many.

    >>> whole_ticks(26)
    [0, 5, 10, 15, 20, 25]
    """
    steps = (digit * 10**power for power in range(20) for digit in (1, 2, 5))
    return list(range(0, largest + 1, next(step for step in steps if largest // step < most)))


@dataclass(frozen=True)
class Curve:
    """Shares at rho = 0, 1, ..., `beyond` after the last of them; `dot` marks a rho on it."""

    name: str
    shares: Sequence[float]
    beyond: float = 0.0
    dot: int | None = None

    def at(self, rho: int) -> float:
        """The share at rho."""
        return self.shares[rho] if rho < len(self.shares) else self.beyond


@dataclass(frozen=True)
class CurvesChart:
    """Curves as steps over the rhos; `shaded` fills the space between the first and the second."""

    title: str
    caption: str
    x_label: str
    curves: Sequence[Curve]
    shaded: bool = False

    @property
    def rhos(self) -> int:
        """The last rho that is drawn."""
        return max(1, *(len(curve.shares) for curve in self.curves))

    @property
    def axes(self) -> Axes:
        """Room for half a step on both sides."""
        ticks = [(float(rho), str(rho)) for rho in whole_ticks(self.rhos)]
        return Axes(-0.5, self.rhos + 0.5, 1.0, self.x_label, ticks, PERCENTS)

    def points(self, curve: Curve) -> list[str]:
        """Corners of the curve, from left to right."""
        axes = self.axes
        sides = ((rho, rho + side) for rho in range(self.rhos + 1) for side in (-0.5, 0.5))
        return [f"{axes.x(x):g},{axes.y(curve.at(rho)):g}" for rho, x in sides]


@dataclass(frozen=True)
class Bar:
    """Inputs at `label`, certified rightly and wrongly, or neither."""

    label: str
    right: int = 0
    wrong: int = 0
    abstained: int = 0

    @property
    def inputs(self) -> int:
        """All of them."""
        return self.right + self.wrong + self.abstained

    def __str__(self) -> str:
        if self.abstained:
            return f"abstained: {self.abstained}"
        return f"{self.label}: {self.right} for the true class, {self.wrong} for a wrong one"


@dataclass(frozen=True)
class BarsChart:
    """A bar for each radius or range of radii; abstentions, if the first bar holds any, stand apart from the radii."""

    title: str
    caption: str
    x_label: str
    bars: Sequence[Bar]
    heading: str = ""

    @property
    def places(self) -> list[float]:
        """Where the middle of each bar is on the axis."""
        if self.bars[0].abstained:
            return [-max(1.5, APART * len(self.bars)), *map(float, range(len(self.bars) - 1))]
        return [float(place) for place in range(len(self.bars))]

    @property
    def axes(self) -> Axes:
        """Labels for the abstentions and for some of the radii; counts upwards."""
        places = self.places
        labelled = dict(zip(places, (bar.label for bar in self.bars), strict=True))
        shown = [float(place) for place in whole_ticks(int(max(places)), 9)]
        ticks = [(place, label) for place, label in labelled.items() if place < 0 or place in shown]
        largest = max(bar.inputs for bar in self.bars)
        counts = [(float(count), f"{count:,}") for count in whole_ticks(largest, 6)]
        return Axes(min(places) - 0.7, max(places) + 0.7, max(largest, 1.0), self.x_label, ticks, counts)

    @property
    def rectangles(self) -> list[tuple[Bar, list[tuple[str, float, float, float, float]]]]:
        """For each bar that holds inputs: kind, x, y, width and height of its parts, from the bottom up."""
        axes, found = self.axes, []
        for place, bar in zip(self.places, self.bars, strict=True):
            parts, below = [], 0
            left, right = axes.x(place - 0.42), axes.x(place + 0.42)
            for kind, count in (("right", bar.right), ("wrong", bar.wrong), ("abstained", bar.abstained)):
                low, high = axes.y(below), axes.y(below + count)
                if count:
                    parts.append((kind, left, high, round(right - left, 2), round(low - high, 2)))
                below += count
            if parts:
                found.append((bar, parts))
        return found
