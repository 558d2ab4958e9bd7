"""Texts and their classes from a CSV, TSV or JSON lines file."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from sparsecert.errors import InputError

MOST_CHARACTERS = 1 << 24  # of a field


@dataclass(frozen=True)
class TextFile:
    """The texts of a file in its order, and the class of each as it is written; None in a file without that column."""

    texts: tuple[str, ...]
    labels: tuple[str, ...] | None


def read_texts(path: str | Path, text: str, target: str | None) -> TextFile:
    """Reads the column `text` and, if the file has it, the column `target`.

    .tsv: tabs between columns and no quotes; .jsonl or .ndjson: an object per line; anything else is CSV. A column is
    named by the first line, or by its number from 1 in a file without a line of names: `2`. Several columns, such as
    title,description, are joined by a space.
    """
    path = Path(path).expanduser()
    names = [name.strip() for name in text.split(",")]
    numbered = all(name.isdecimal() for name in names)
    try:
        rows = list(_rows(path, numbered))
    except FileNotFoundError as error:
        raise InputError(f"{path} is not a file; give a CSV, TSV or JSON lines file of texts") from error
    except (OSError, UnicodeDecodeError, csv.Error, json.JSONDecodeError) as error:
        raise InputError(f"{path} cannot be read as a file of texts: {error}") from error
    if not rows:
        raise InputError(f"{path} has no texts")
    texts = [" ".join(_field(path, row, name, number) for name in names) for number, row in enumerate(rows)]
    labelled = target is not None and target in rows[0]
    labels = [_field(path, row, str(target), number) for number, row in enumerate(rows)] if labelled else None
    return TextFile(tuple(texts), None if labels is None else tuple(labels))


def _rows(path: Path, numbered: bool) -> Iterator[dict[str, str]]:
    """The fields of each row by the name, or the number, of their column."""
    with path.open(encoding="utf-8", newline="") as file:
        if path.suffix.lower() in (".jsonl", ".ndjson"):
            for line in file:
                if line.strip():
                    row = json.loads(line)
                    if not isinstance(row, dict):
                        raise InputError(f"{path} must hold an object per line, got {line.strip()[:80]}")
                    yield {str(name): str(value) for name, value in row.items() if value is not None}
            return
        csv.field_size_limit(MOST_CHARACTERS)
        tabs = path.suffix.lower() == ".tsv"
        reader = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if tabs else csv.reader(file)
        first = next(reader, [])
        names: Sequence[str] = (
            [str(place + 1) for place in range(len(first))] if numbered else [n.strip() for n in first]
        )
        for row in chain([first] if numbered and first else [], reader):
            if row:
                yield dict(zip(names, row, strict=False))


def _field(path: Path, row: dict[str, str], name: str, number: int) -> str:
    if name not in row:
        raise InputError(
            f"{path} has no column {name} in row {number + 1}; it has {', '.join(row):.200}. In a file without a "
            "line of names, columns are numbered: 1, 2, ..."
        )
    return row[name]
