"""The geometry of the page's charts, which `templates/charts.html` draws as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from sparsecert.reports.comparison import UNCERTIFIED

GAP = 0.1  # before the radii, as a share of their width, so that labels do not touch
PERCENTS = [(share / 100, f"{share}%") for share in (0, 25, 50, 75, 100)]
Ticks = Sequence[tuple[float, str]]


@dataclass(frozen=True)
class Axes:
    """Maps values to coordinates: `start` to `end` from left to right, 0 to `largest` from bottom to top."""

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
        return round(self.left + (value - self.start) / (self.end - self.start) * (self.right - self.left), 2)

    def y(self, value: float) -> float:
        return round(self.bottom - value / self.largest * (self.bottom - self.top), 2)


def whole_ticks(largest: int, most: int = 7) -> list[int]:
    """At most `most` integers from 0 to the largest, in steps of 1, 2 or 5 times a power of ten.

    >>> whole_ticks(26)
    [0, 5, 10, 15, 20, 25]
    """
    steps = (digit * 10**power for power in range(20) for digit in (1, 2, 5))
    return list(range(0, largest + 1, next(step for step in steps if largest // step < most)))


@dataclass(frozen=True)
class Curve:
    """Shares at rho = 0, 1, ..., then `beyond`; `dot` marks a rho, `band` is the confidence interval of each share."""

    name: str
    shares: Sequence[float]
    beyond: float = 0.0
    dot: int | None = None
    band: Sequence[tuple[float, float]] = ()

    def at(self, rho: int) -> float:
        return self.shares[rho] if rho < len(self.shares) else self.beyond


@dataclass(frozen=True)
class CurvesChart:
    """Step curves over rho; `shaded` fills the space between the first two."""

    title: str
    caption: str
    x_label: str
    curves: Sequence[Curve]
    shaded: bool = False

    @property
    def rhos(self) -> int:
        """The last rho drawn."""
        return max(1, *(len(curve.shares) for curve in self.curves))

    @property
    def axes(self) -> Axes:
        ticks = [(float(rho), str(rho)) for rho in whole_ticks(self.rhos)]
        return Axes(-0.5, self.rhos + 0.5, 1.0, self.x_label, ticks, PERCENTS)

    def points(self, curve: Curve) -> list[str]:
        """The curve's corners, from left to right."""
        return self._corners([curve.at(rho) for rho in range(self.rhos + 1)])

    def band(self, curve: Curve) -> list[str]:
        """The corners of the curve's band, once around."""
        lows, highs = zip(*curve.band, strict=True)
        return self._corners(highs) + self._corners(lows)[::-1]

    def _corners(self, heights: Sequence[float]) -> list[str]:
        axes = self.axes
        sides = ((rho + side, height) for rho, height in enumerate(heights) for side in (-0.5, 0.5))
        return [f"{axes.x(x):g},{axes.y(height):g}" for x, height in sides]


@dataclass(frozen=True)
class Bar:
    """Inputs at `label`: certified for the true class, for a wrong one, or not at all."""

    label: str
    right: int = 0
    wrong: int = 0
    uncertified: int = 0

    @property
    def inputs(self) -> int:
        return self.right + self.wrong + self.uncertified

    def __str__(self) -> str:
        if self.uncertified:
            return f"{UNCERTIFIED}: {self.uncertified}"
        return f"{self.label}: {self.right} for the true class, {self.wrong} for a wrong one"


@dataclass(frozen=True)
class BarsChart:
    """A bar per radius or range of radii; a first bar of inputs without a certificate, if any, is set apart."""

    title: str
    caption: str
    x_label: str
    bars: Sequence[Bar]
    heading: str = ""

    @property
    def places(self) -> list[float]:
        """The centre of each bar on the x axis."""
        if self.bars[0].uncertified:
            return [-max(1.5, GAP * len(self.bars)), *map(float, range(len(self.bars) - 1))]
        return [float(place) for place in range(len(self.bars))]

    @property
    def axes(self) -> Axes:
        places = self.places
        labelled = dict(zip(places, (bar.label for bar in self.bars), strict=True))
        ticked = [float(place) for place in whole_ticks(int(max(places)), 9)]
        ticks = [(place, label) for place, label in labelled.items() if place < 0 or place in ticked]
        largest = max(bar.inputs for bar in self.bars)
        counts = [(float(count), f"{count:,}") for count in whole_ticks(largest, 6)]
        return Axes(min(places) - 0.7, max(places) + 0.7, max(largest, 1.0), self.x_label, ticks, counts)

    @property
    def rectangles(self) -> list[tuple[Bar, list[tuple[str, float, float, float, float]]]]:
        """For each non-empty bar: kind, x, y, width and height of its parts, from the bottom up."""
        axes, found = self.axes, []
        for place, bar in zip(self.places, self.bars, strict=True):
            parts, below = [], 0
            left, right = axes.x(place - 0.42), axes.x(place + 0.42)
            for kind, count in (("right", bar.right), ("wrong", bar.wrong), ("uncertified", bar.uncertified)):
                low, high = axes.y(below), axes.y(below + count)
                if count:
                    parts.append((kind, left, high, round(right - left, 2), round(low - high, 2)))
                below += count
            if parts:
                found.append((bar, parts))
        return found
