"""Charts as SVG within the page: drawn for a phone's width, coloured by its style sheet, so that they suit the dark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparsecert.reports.page.markup import Html, joined, tag

WIDTH, HEIGHT = 420.0, 250.0
LEFT, RIGHT, TOP, BOTTOM = 44.0, 8.0, 10.0, 38.0
STYLES = 7  # series that the style sheet tells apart by colour; by dashes too, in another cycle
DASHES = None, "7 3", "7 3 2 3", "2 2", "10 3 2 3 2 3"
APART = 0.1  # of the radii's width: between them and the abstentions, so that their numbers do not touch
PERCENTS = [(share / 100, f"{share}%") for share in (0, 25, 50, 75, 100)]


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


@dataclass(frozen=True)
class Frame:
    """Where values stand on the paper: `start` to `end` across, 0 to `top` up."""

    start: float
    end: float
    top: float

    def x(self, value: float) -> float:
        """From the left, rounded to what can be seen."""
        return round(LEFT + (value - self.start) / (self.end - self.start) * (WIDTH - LEFT - RIGHT), 2)

    def y(self, value: float) -> float:
        """From the top."""
        return round(HEIGHT - BOTTOM - value / self.top * (HEIGHT - TOP - BOTTOM), 2)

    def axes(self, across: str, ticks: Sequence[tuple[float, str]], ups: Sequence[tuple[float, str]]) -> Html:
        """Grid lines with their numbers, and what they count; what goes up is said in the figure's caption."""
        right, bottom = self.x(self.end), self.y(0)
        lines = [
            joined(
                (
                    tag("line", x1=LEFT, x2=right, y1=self.y(value), y2=self.y(value), class_="grid"),
                    tag("text", text, x=LEFT - 5, y=self.y(value) + 4, class_="end"),
                )
            )
            for value, text in ups
        ]
        lines += [tag("text", text, x=self.x(value), y=bottom + 14, class_="middle") for value, text in ticks]
        middle = (LEFT + right) / 2
        return joined([*lines, tag("text", across, x=middle, y=HEIGHT - 6, class_="middle")])


def whole_ticks(largest: int, most: int = 7) -> list[int]:
    """Whole numbers from 0 to the largest in steps of 1, 2 or 5 times a power of ten, at most so many.

    >>> whole_ticks(26)
    [0, 5, 10, 15, 20, 25]
    """
    step, factors = 1, (2, 2.5, 2)
    turn = 0
    while largest // step + 1 > most:
        step = int(step * factors[turn % 3])
        turn += 1
    return list(range(0, largest + 1, step))


def curves_chart(curves: Sequence[Curve], across: str, title: str, between: bool = False) -> Html:
    """Steps, each as wide as the rho it stands over, with a line at one half; `between` shades from the first to the
    second curve.
    """
    rhos = max(1, *(len(curve.shares) for curve in curves))
    frame = Frame(-0.5, rhos + 0.5, 1.0)
    ticks = [(float(rho), str(rho)) for rho in whole_ticks(rhos)]
    drawn = [frame.axes(across, ticks, PERCENTS)]
    drawn.append(tag("line", x1=LEFT, x2=frame.x(frame.end), y1=frame.y(0.5), y2=frame.y(0.5), class_="half"))
    if between:
        upper, lower = (_points(frame, curve, rhos) for curve in curves[:2])
        outline = " ".join(f"{x:g},{y:g}" for x, y in [*upper, *reversed(lower)])
        drawn.append(tag("polygon", points=outline, class_="between"))
    for place, curve in enumerate(curves):
        points = " ".join(f"{x:g},{y:g}" for x, y in _points(frame, curve, rhos))
        style = f"s{place % STYLES}"
        drawn.append(tag("polyline", points=points, class_=f"curve {style}", stroke_dasharray=_dashes(place)))
        if curve.dot is not None:
            drawn.append(tag("circle", cx=frame.x(curve.dot), cy=frame.y(curve.at(curve.dot)), r="4", class_=style))
    return _svg(title, drawn)


def _points(frame: Frame, curve: Curve, rhos: int) -> list[tuple[float, float]]:
    corners = []
    for rho in range(rhos + 1):
        height = frame.y(curve.at(rho))
        corners += [(frame.x(rho - 0.5), height), (frame.x(rho + 0.5), height)]
    return corners


def _dashes(place: int) -> str | None:
    return DASHES[place % len(DASHES)]


def legend(names: Sequence[str]) -> Html:
    """The names of curves, each beside a piece of its line."""
    items = []
    for place, name in enumerate(names):
        line = tag(
            "line", x1="0", x2="34", y1="6", y2="6", class_=f"curve s{place % STYLES}", stroke_dasharray=_dashes(place)
        )
        swatch = tag("svg", line, viewBox="0 0 34 12", class_="swatch", aria_hidden="true")
        items.append(tag("li", swatch, tag("span", name)))
    return tag("ul", *items, class_="legend")


def bars_chart(bars: Sequence[Bar], across: str, title: str, top: int) -> Html:
    """A bar for each radius, or range of them, of which the wrong certificates stand on the right ones.

    The abstentions, where the first bar holds any, stand apart from the radii.
    """
    apart = bool(bars and bars[0].abstained)
    places = [float(place) for place in range(len(bars))]
    if apart:
        places = [-max(1.5, APART * len(bars)), *places[:-1]]
    frame = Frame(min(places) - 0.7, max(places) + 0.7, float(max(top, 1)))
    radii = len(bars) - apart
    ticks = [(float(place), bars[place + apart].label) for place in whole_ticks(radii - 1, 9)] if radii else []
    ticks = [(places[0], bars[0].label), *ticks] if apart else ticks
    drawn = [frame.axes(across, ticks, [(float(count), f"{count:,}") for count in whole_ticks(top, 6)])]
    drawn += [_stack(frame, place, bar) for place, bar in zip(places, bars, strict=True) if bar.inputs]
    return _svg(title, drawn)


def _stack(frame: Frame, place: float, bar: Bar) -> Html:
    below, parts = 0, []
    left, right = frame.x(place - 0.42), frame.x(place + 0.42)
    for kind, count in (("right", bar.right), ("wrong", bar.wrong), ("abstained", bar.abstained)):
        if count:
            high, low = frame.y(below + count), frame.y(below)
            size = {"width": round(right - left, 2), "height": round(low - high, 2)}
            parts.append(tag("rect", x=left, y=high, **size, class_=kind))
        below += count
    return tag("g", tag("title", _told(bar)), *parts)


def _told(bar: Bar) -> str:
    if bar.abstained:
        return f"abstained: {bar.abstained}"
    return f"{bar.label}: {bar.right} for the true class, {bar.wrong} for a wrong one"


def bars_legend(bars: Sequence[Bar]) -> Html:
    """What the colours of the bars stand for, of those that there are."""
    kinds = {
        "right": ("for the true class", any(bar.right for bar in bars)),
        "wrong": ("for a wrong class", any(bar.wrong for bar in bars)),
        "abstained": ("abstained", any(bar.abstained for bar in bars)),
    }
    items = []
    for kind, (name, there) in kinds.items():
        if there:
            box = tag("rect", width="12", height="12", class_=kind)
            swatch = tag("svg", box, viewBox="0 0 12 12", class_="box", aria_hidden="true")
            items.append(tag("li", swatch, tag("span", name)))
    return tag("ul", *items, class_="legend")


def _svg(title: str, drawn: Sequence[Html]) -> Html:
    size = f"0 0 {WIDTH:g} {HEIGHT:g}"
    return tag("svg", tag("title", title), *drawn, viewBox=size, class_="chart", role="img", aria_label=title)
