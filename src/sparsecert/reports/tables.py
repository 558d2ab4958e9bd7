"""Summaries as text: for a terminal, a paper, a spreadsheet or a program."""

from __future__ import annotations

import csv as csv_module
import io
import json as json_module
import re
import shutil
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from sparsecert.reports.comparison import (
    NOT_APPLICABLE,
    Table,
    accuracy_table,
    certificates_line,
    measure_name,
    remarks,
    results_table,
    run_numbers,
    run_settings,
    shared_settings,
)
from sparsecert.reports.run_info import RunInfo
from sparsecert.reports.summary import Summary

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

UNDERLINED_HEADER = "    \n    \n -- \n    \n    \n    \n    \n    \n"  # ASCII, which every console can print
COLUMN_GAP = 3  # spaces
MARKDOWN_SPECIAL = {ord(c): f"\\{c}" for c in r"\`*_|<>[]#"}
LATEX_SPECIAL = {ord(c): f"\\{c}" for c in "{}$&#_%"} | {
    ord("\\"): r"\textbackslash{}",
    ord("~"): r"\textasciitilde{}",
    ord("^"): r"\textasciicircum{}",
    ord("<"): r"\textless{}",
    ord(">"): r"\textgreater{}",
    ord("|"): r"\textbar{}",
}
LATEX_MATHS = {"rho": r"$\rho$", "alpha": r"$\alpha$", "k": "$k$", "n": "$n$", "n0": "$n_0$", NOT_APPLICABLE: "--"}


def table_text(table: Table, form: str) -> str:
    """One table in the named format; json and csv hold the cells as shown."""
    if form == "markdown":
        return _markdown_table(table)
    if form == "latex":
        return _latex_table(table)
    if form == "json":
        rows = [dict(zip(table.headers, row, strict=True)) for row in table.rows]
        return json_module.dumps({"about": table.caption, "rows": rows, "notes": list(table.notes)}, indent=2) + "\n"
    text = io.StringIO()
    if form == "csv":
        csv_module.writer(text, lineterminator="\n").writerows([table.headers, *table.rows])
        return text.getvalue()
    console = _console(text, None, color=False)
    console.print(table.caption + "\n")
    _print(console, table, ["", *table.notes])
    return _without_trailing_spaces(text.getvalue())


def _console(file: io.StringIO, width: int | None, color: bool) -> Console:
    from rich.console import Console

    columns = width or shutil.get_terminal_size((120, 40)).columns
    return Console(
        file=file, width=columns, force_terminal=color, no_color=not color, markup=False, emoji=False, highlight=False
    )


def terminal(summaries: Sequence[Summary], *, width: int | None = None, color: bool = False) -> str:
    """For a screen: one run as a list, several as a table; then certified accuracy by rho.

    Lines wider than `width` (default: this terminal's) are wrapped, not cut off.
    """
    shared_settings(summaries)
    text = io.StringIO()
    console = _console(text, width, color)
    if len(summaries) == 1:
        console.print(_grid(_run_lines(summaries[0])))
    else:
        comparison = results_table(summaries)
        _print(console, comparison, [comparison.caption, *comparison.notes])
    accuracies = accuracy_table(summaries)
    if accuracies is not None:
        console.print()
        _print(console, accuracies, accuracies.notes)
    return _without_trailing_spaces(text.getvalue()) if not color else text.getvalue()


def markdown(summaries: Sequence[Summary]) -> str:
    """GitHub-flavoured Markdown: the results, then certified accuracy by rho."""
    return "\n".join(_markdown_table(table) for table in _human_tables(summaries))


def latex(summaries: Sequence[Summary]) -> str:
    """LaTeX for the booktabs package: the results, then certified accuracy by rho, as tables with caption and label."""
    return "\n".join(_latex_table(table) for table in _human_tables(summaries))


def csv(summaries: Sequence[Summary]) -> str:
    """One row per run, unrounded; certified accuracy in the columns certified_accuracy_0, _1, ... to the largest rho.

    A cell is empty if it is N/A, or does not apply to predictions.
    """
    shared_settings(summaries)
    rhos = range(max(len(summary.certified_accuracy) for summary in summaries))
    return csv_text(
        plain_values(summary) | {f"certified_accuracy_{rho}": summary.certified_accuracy_at(rho) for rho in rhos}
        for summary in summaries
    )


def plain_values(summary: RunInfo) -> dict[str, object]:
    """What of `to_dict` fits into a cell."""
    return {name: value for name, value in summary.to_dict().items() if not isinstance(value, dict | list)}


def csv_text(rows: Iterable[dict[str, object]]) -> str:
    """Rows as CSV, with a column for every key."""
    text, rows = io.StringIO(), list(rows)
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv_module.DictWriter(text, fieldnames=names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def json(summaries: Sequence[Summary]) -> str:
    """`Summary.to_dict` of one run as an object, of several as a list."""
    shared_settings(summaries)
    values = [summary.to_dict() for summary in summaries]
    return json_module.dumps(values[0] if len(values) == 1 else values, indent=2, allow_nan=False) + "\n"


FORMATS: dict[str, Callable[[Sequence[Summary]], str]] = {
    "terminal": terminal,
    "markdown": markdown,
    "latex": latex,
    "csv": csv,
    "json": json,
}


def _human_tables(summaries: Sequence[Summary]) -> list[Table]:
    accuracies = accuracy_table(summaries)
    return [results_table(summaries), *([accuracies] if accuracies else [])]


def _run_lines(summary: Summary) -> list[tuple[str, str]]:
    constant = summary.most_frequent is not None
    lines = list(run_numbers(summary, summary.certifies, measure_name([summary]), constant=constant).items())
    if summary.certifies:
        lines.append(("certificates", certificates_line(summary)))
    passes = "forward passes per input" if summary.exact else "samples per input"
    lines += [(passes, f"{summary.mean_samples:g}")]
    lines += [(name, text) for name, text in run_settings(summary).items() if text != NOT_APPLICABLE]
    return [*lines, ("records", summary.source), *(("note", remark) for remark in remarks(summary))]


def list_text(lines: Sequence[tuple[str, str]]) -> str:
    """Names and values, one per line, as wide as this terminal."""
    text = io.StringIO()
    _console(text, None, color=False).print(_grid(lines))
    return _without_trailing_spaces(text.getvalue())


def _grid(lines: Sequence[tuple[str, str]]) -> RichTable:
    from rich.table import Table as RichTable

    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in lines:
        grid.add_row(name, text)
    return grid


def _print(console: Console, table: Table, lines_below: Iterable[str]) -> None:
    from rich.box import Box
    from rich.table import Table as RichTable

    rich = RichTable(box=Box(UNDERLINED_HEADER, ascii=True), show_edge=False, pad_edge=False)
    for header, width in zip(table.headers, _widths(table, console.width), strict=True):
        lines = textwrap.wrap(header, width) if header.strip() else [header]
        rich.add_column("\n".join(lines), justify="right", overflow="fold")
    for row in table.rows:
        rich.add_row(*row)
    console.print(rich)
    for line in lines_below:
        console.print(line)


def _widths(table: Table, width: int) -> list[int]:
    """The width of each column: headers are wrapped before cells are.

    No column is narrower than its cells or its longest word; what is left of `width` goes to the headers closest to
    fitting.
    """
    columns = list(zip(table.headers, *table.rows, strict=True))
    widths = [max(1, *map(len, (*header.split(), *cells))) for header, *cells in columns]
    left = width - sum(widths) - COLUMN_GAP * (len(widths) - 1)
    lacking = [max(0, len(header) - given) for header, given in zip(table.headers, widths, strict=True)]
    for column in sorted(range(len(widths)), key=lacking.__getitem__):
        more = max(0, min(lacking[column], left))
        widths[column], left = widths[column] + more, left - more
    return widths


def _without_trailing_spaces(text: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def _markdown_table(table: Table) -> str:
    lines = [_markdown_row(table.headers), "|" + " ---: |" * len(table.headers), *map(_markdown_row, table.rows), ""]
    return "\n".join([*lines, *(f"- {note.translate(MARKDOWN_SPECIAL)}" for note in (table.caption, *table.notes)), ""])


def _markdown_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.translate(MARKDOWN_SPECIAL) for cell in cells) + " |"


def _latex_table(table: Table) -> str:
    """A table with its caption and a label made of its title; notes, such as where the records are, are comments."""
    caption = ": ".join(filter(None, (table.title, table.caption))).translate(LATEX_SPECIAL)
    label = "-".join(re.findall("[a-z0-9]+", (table.title or table.caption).lower())[:8])
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{caption}.}}",
        rf"\label{{tab:{label}}}",
        rf"\begin{{tabular}}{{l{'r' * (len(table.headers) - 1)}}}",
        r"\toprule",
        _latex_row(table.headers),
        r"\midrule",
        *map(_latex_row, table.rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join([*lines, *(f"% {' '.join(note.split())}" for note in table.notes), ""])


def _latex_row(cells: Iterable[str]) -> str:
    return " & ".join(LATEX_MATHS.get(cell) or cell.translate(LATEX_SPECIAL) for cell in cells) + r" \\"
