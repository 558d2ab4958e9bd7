"""Tables in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sparsecert.reports.comparison import Table

A_NUMBER = re.compile(r"N/A|[-+\d.,%() ]*(?:e[-+]\d+)?(?:(?:of|to) [\d,]+)?(?: ?(?:d|h|min|s|MiB))?")


def markdown(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; columns of numbers are set to the right."""
    rows = list(rows)
    columns = zip(*rows, strict=True)
    rules = ("---:" if all(map(A_NUMBER.fullmatch, column)) else "---" for column in columns)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headers, tuple(rules), *rows))


def shown(made: Table, without: Sequence[str] = ()) -> str:
    """A table of the package, less some columns; its notes are for the page to say."""
    kept = [place for place, header in enumerate(made.headers) if header not in without]
    return markdown([made.headers[place] for place in kept], [[row[place] for place in kept] for row in made.rows])


def rows_of(made: Table) -> list[dict[str, str]]:
    """Each row by the names of its columns."""
    return [dict(zip(made.headers, row, strict=True)) for row in made.rows]
