"""HTML as text in which everything is escaped that is not markup of our own making."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from sparsecert.reports.comparison import Table

VOID = "img", "meta"  # elements that have no end
SHORT = 20  # letters of a row's name that are not broken
MOST_ROWS = 30  # of a table that is shown at its full height on a screen


class Html(str):
    """Text that is markup already; any other text is escaped where it meets one."""

    __slots__ = ()


def tag(name: str, /, *children: str | None, **attributes: str | float | None) -> Html:
    """An element; children and attributes that are None are left out.

    Attributes are named as in Python: `class_` is class, `aria_label` is aria-label.
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_plain(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID:
        return Html(f"<{name}{given}>")
    return Html(f"<{name}{given}>{joined(children)}</{name}>")


def joined(parts: Iterable[str | None]) -> Html:
    """Parts one after the other, each escaped unless it is markup."""
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in parts if part is not None))


def _plain(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"


def section(title: str, *children: str | None) -> Html:
    """A part of the page under a heading of the second level."""
    return tag("section", tag("h2", title), *children)


def table_of(table: Table, *, bars: Sequence[int] = ()) -> Html:
    """A table that scrolls by itself where it is too wide; each row is headed by its first cell.

    The columns in `bars` hold percentages, which are drawn behind their numbers.
    """
    head = tag("tr", *(tag("th", header, scope="col") for header in table.headers))
    rows = []
    for row in table.rows:
        cells = [
            tag("td", _bar(cell), cell, class_="barred") if place in bars else tag("td", cell)
            for place, cell in enumerate(row[1:], start=1)
        ]
        rows.append(tag("tr", tag("th", row[0], scope="row"), *cells))
    caption = tag("caption", table.caption) if table.caption else None
    short = all(len(row[0]) <= SHORT for row in table.rows)
    shown = tag("table", caption, tag("thead", head), tag("tbody", *rows), class_=None if short else "named")
    size = "wide long" if len(table.rows) > MOST_ROWS else "wide"
    box = tag("div", shown, class_=size, tabindex="0", role="region", aria_label=table.caption or "table")
    return joined([box, *(tag("p", note, class_="note") for note in table.notes)])


def _bar(percentage: str) -> Html | None:
    """A bar as long as the percentage says; none where the cell is no number."""
    if not percentage.endswith("%"):
        return None
    length = float(percentage[:-1])
    bar = tag("rect", width=length, height="10")
    return tag("svg", bar, class_="bar", viewBox="0 0 100 10", preserveAspectRatio="none", aria_hidden="true")


def listed(facts: dict[str, str]) -> Html:
    """Names and what is said of them."""
    pairs = (tag("div", tag("dt", name), tag("dd", text)) for name, text in facts.items())
    return tag("dl", *pairs, class_="facts")


def tiles(numbers: dict[str, str]) -> Html:
    """The numbers that a reader came for, large."""
    pairs = (tag("div", tag("dt", name), tag("dd", text)) for name, text in numbers.items())
    return tag("dl", *pairs, class_="tiles")
