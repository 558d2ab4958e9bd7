"""The answers of a run as a table: one row per input, for whoever wants answers rather than accuracies."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator
from statistics import median_low

from sparsecert.counts import UNKNOWN
from sparsecert.records import Record, Records

COLUMNS = "row", "answer", "radius", "abstained"
TRUE = "true"


def answers_csv(records: Records) -> str:
    """CSV with the number of each input, its answer, whether the model abstained and, of certificates, the radius.

    Answer and radius are empty where the model abstained. The true class is a column where it is known. Inputs are in
    order, and numbered from 0 as in their file or data set.
    """
    certifies, names = records.header.certifies, _class_names(records)
    columns = [
        *(name for name in COLUMNS if certifies or name != "radius"),
        *([TRUE] if records.header.labelled else []),
    ]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for line, label in sorted(_answers(records), key=lambda pair: pair[0].example):
        writer.writerow(
            {
                "row": line.example,
                "answer": None if label is None else names[label],
                "radius": line.radius,
                "abstained": "yes" if label is None else "no",
                TRUE: None if line.true == UNKNOWN else names[line.true],
            }
        )
    return text.getvalue()


def answer_lines(records: Records) -> list[tuple[str, str]]:
    """What the answers are, in names and values to list: how often each class, abstentions and the median radius."""
    names, found = _class_names(records), list(_answers(records))
    counts = Counter(label for _, label in found)
    lines = [("inputs", f"{len(found):,}")]
    lines += [(f"answer {names[label]}", f"{n:,}") for label, n in counts.most_common() if label is not None]
    lines.append(("abstained", f"{counts[None]:,}"))
    radii = [line.radius for line, label in found if label is not None and line.radius is not None]
    return [*lines, *([("median radius of the answers", str(median_low(radii)))] if radii else [])]


def _answers(records: Records) -> Iterator[tuple[Record, int | None]]:
    """Each input with its answer as recorded; None where nothing was certified, or the prediction abstained."""
    for line in records.lines:
        yield line, None if records.header.certifies and line.radius is None else line.label


def _class_names(records: Records) -> list[str]:
    run = records.header.run
    return list(run["data"].get("class_names") or map(str, range(run["classes"])))
