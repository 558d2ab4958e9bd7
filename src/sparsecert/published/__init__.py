"""The paper's tables as data, each with its source: what the measured numbers stand beside. No torch here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparsecert.errors import InputError

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Sampling:
    """How many ablated copies were drawn and at which alpha; `predict_n` None where nothing was predicted."""

    n0: int
    n: int
    alpha: float
    predict_n: int | None


@dataclass(frozen=True)
class PublishedRow:
    """One row as printed: percentages, and the median certified robustness; None where N/A or not given."""

    keep: int
    encoding: str
    accuracy: float | None
    abstained: float | None
    median: int | None


@dataclass(frozen=True)
class Published:
    """A published table: where it stands, what it is of, how it was made, and its rows."""

    name: str
    source: str
    about: str
    data: str
    sampling: Sampling
    rows: tuple[PublishedRow, ...]


def published(name: str) -> Published:
    """The published table of that name."""
    path = FOLDER / f"{name}.json"
    if not path.is_file():
        raise InputError(f"published table must be one of {', '.join(names())}, got {name!r}")
    table: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    sampling, rows = Sampling(**table.pop("settings")), tuple(PublishedRow(**row) for row in table.pop("rows"))
    return Published(sampling=sampling, rows=rows, **table)


def names() -> list[str]:
    """The tables that are there."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))
