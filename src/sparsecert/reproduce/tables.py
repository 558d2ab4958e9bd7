"""Measured beside published: the tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparsecert.errors import InputError
from sparsecert.published import Published, PublishedRow, published
from sparsecert.records import Records
from sparsecert.reports import Summary, summarise
from sparsecert.reports.comparison import NOT_APPLICABLE, Table, median, percent, sentence, shared_facts
from sparsecert.reproduce.study import Cell, Study


@dataclass(frozen=True)
class Row:
    """One classifier: what the paper printed of it, and what its votes say by each bound."""

    cell: Cell
    published: PublishedRow | None
    one_sided: Summary
    two_sided: Summary


def measured_rows(study: Study, table: Published, keeps: Sequence[int] | None = None) -> list[Row]:
    """The table's rows, or those of `keeps`; what is missing of their models and records is made."""
    printed = {Cell(row.keep, row.encoding): row for row in table.rows}
    cells = list(printed) if keeps is None else [cell for keep in keeps for cell in _cells_of(keep, table)]
    sampling = study.sampling(table.sampling)
    study.complete(cells, sampling)
    rows = []
    with study.bars.rows(len(cells)) as told:
        for cell in cells:
            rows.append(Row(cell, printed.get(cell), *_by_each_bound(*study.records(cell, sampling))))
            told()
    return rows


def _cells_of(keep: int, table: Published) -> list[Cell]:
    """The table's classifiers of that k; in a table over several k, one that it lacks is the null-channels one."""
    known = [Cell(row.keep, row.encoding) for row in table.rows if row.keep == keep]
    over = sorted({row.keep for row in table.rows})
    if not known and len(over) == 1:
        raise InputError(f"{table.name} is of k = {over[0]} alone, keeps has {keep}")
    return known or [Cell(keep)]


def _by_each_bound(records: Records, predictions: Records | None) -> tuple[Summary, Summary]:
    one_sided = summarise(records, bound="one-sided", predictions=predictions)
    return one_sided, summarise(records, bound="two-sided", predictions=predictions)


def table(study: Study, name: str, keeps: Sequence[int] | None = None) -> Table:
    """A published table with the measured numbers beside it."""
    known = published(name)
    rows = measured_rows(study, known, keeps)
    notes = [
        "accuracy: the true class is predicted; in brackets: percent abstained",
        "strict: certified for the true class by Corollary 1, as its statement says; reference: as the paper's code "
        "counts, a right class that is not certified has robustness 0; two-sided: Corollary 2 on the same votes",
        _settings(rows),
        f"published: {known.source}",
        *_largest_medians(rows),
    ]
    encodings = len({row.cell.encoding for row in rows}) > 1
    return Table(_headers(encodings), tuple(_texts(row, encodings) for row in rows), known.about, tuple(notes))


def _headers(encodings: bool) -> tuple[str, ...]:
    first = ("k", "encoding") if encodings else ("k",)
    medians = ("median strict", "median reference", "median published", "median two-sided")
    return (*first, "accuracy measured", "accuracy published", "difference", *medians)


def _texts(row: Row, encodings: bool) -> tuple[str, ...]:
    printed = row.published
    difference = NOT_APPLICABLE
    if printed is not None and printed.accuracy is not None:
        difference = f"{100 * row.one_sided.accuracy - printed.accuracy:+.2f}"
    return (
        str(row.cell.keep),
        *((row.cell.encoding,) if encodings else ()),
        f"{percent(row.one_sided.accuracy)} ({percent(row.one_sided.abstained)})",
        _printed_accuracy(printed),
        difference,
        median(row.one_sided.median),
        median(row.one_sided.median_reference),
        NOT_APPLICABLE if printed is None else median(printed.median),
        median(row.two_sided.median),
    )


def _printed_accuracy(printed: PublishedRow | None) -> str:
    if printed is None or printed.accuracy is None or printed.abstained is None:
        return NOT_APPLICABLE
    return f"{printed.accuracy:.2f}% ({printed.abstained:.2f}%)"


def _settings(rows: Sequence[Row]) -> str:
    shared = shared_facts([row.two_sided for row in rows])
    votes = rows[0].two_sided.classification
    predicted = "the same votes" if votes.source == "estimation votes" else f"{votes.n} other copies"
    return f"{sentence({name: text for name, text in shared.items() if name != 'bound'})}; accuracy from {predicted}"


def _largest_medians(rows: Sequence[Row]) -> list[str]:
    if len(rows) < 2 or len({row.cell.encoding for row in rows}) > 1:
        return []
    lines = []
    for summary in (best([row.one_sided for row in rows]), best([row.two_sided for row in rows])):
        share = percent(summary.certified_accuracy_at(summary.median or 0) or 0.0)
        where = f"{median(summary.median)} at k = {summary.scheme['keep']} ({share} certified there)"
        lines.append(f"largest median, {summary.bound}: {where}")
    return lines


def best(summaries: Sequence[Summary]) -> Summary:
    """The run with the largest median; among equals, the one with most inputs certified at it."""

    def merit(summary: Summary) -> tuple[int, float]:
        found = -1 if summary.median is None else summary.median
        return found, summary.certified_accuracy_at(max(found, 0)) or 0.0

    return max(summaries, key=merit)
