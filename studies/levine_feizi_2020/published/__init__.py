"""The paper's tables as data, each with its source, to compare measured numbers with. No torch here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from sparsecert.errors import InputError

FOLDER = Path(__file__).parent
CERTIFICATES, BASE_ACCURACY, ATTACKS, SCHEMES = "certificates", "base-accuracy", "attacks", "schemes"  # the kinds
MEDIANS, PATCHES = "medians", "patches"  # of other papers

RowT = TypeVar("RowT")


@dataclass(frozen=True, kw_only=True)
class Published(Generic[RowT]):
    """A published table: its name, source, subject, rows and remarks."""

    name: str
    source: str
    about: str
    rows: tuple[RowT, ...]
    remarks: tuple[str, ...] = ()


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
    median_among_certified: int | None = None


@dataclass(frozen=True, kw_only=True)
class PublishedTable(Published[PublishedRow]):
    """Certificates, and how they were made."""

    data: str
    sampling: Sampling


@dataclass(frozen=True)
class PublishedBaseRow:
    """One row as printed: percentages of ablated training and test images that the base classifier gets right."""

    keep: int
    training: float
    test: float

    @property
    def gap(self) -> float:
        """The generalisation gap, in percentage points."""
        return self.training - self.test


@dataclass(frozen=True, kw_only=True)
class PublishedBaseAccuracy(Published[PublishedBaseRow]):
    """Base classifiers, all of the architecture `model`."""

    data: str
    model: str


@dataclass(frozen=True)
class PublishedAttackedRow:
    """One row as printed: accuracy in percent, and the median number of pixels that fooled the classifier.

    model: how this package names a classifier of that kind, None where it has none. keep: of a smoothed one. within_12:
    accuracy in percent within 12 changed pixels, by Schott et al. (2019).
    """

    printed: str
    model: str | None
    accuracy: float
    median: float
    measured_by: str
    keep: int | None = None
    within_12: float | None = None


@dataclass(frozen=True, kw_only=True)
class PublishedAttacks(Published[PublishedAttackedRow]):
    """Attacked classifiers, and how the paper's own was attacked."""

    data: str
    attack: str
    restarts: int
    images: int
    predict_n: int
    alpha: float


@dataclass(frozen=True)
class PublishedMedian:
    """The best median certified robustness on a data set."""

    data: str
    median: int


class PublishedMedians(Published[PublishedMedian]):
    """The best published medians."""

    def of(self, data: str) -> int | None:
        """The median for this data set, if any."""
        return next((row.median for row in self.rows if row.data == data), None)


@dataclass(frozen=True)
class PublishedPatch:
    """Percentages as printed: accuracy, and the share certified against a patch of `side` pixels a side."""

    data: str
    side: int
    accuracy: float
    certified: float


@dataclass(frozen=True)
class PublishedSchemesRow:
    """One row as printed: the median certified robustness by each scheme on a data set; `keep` is ablation's best k."""

    data: str
    random_values: int
    ablation: int
    keep: int


def published(name: str) -> PublishedTable:
    """The published table of certificates of that name."""
    table = _table(name, CERTIFICATES, PublishedRow)
    return PublishedTable(sampling=Sampling(**table.pop("settings")), **table)


def published_base_accuracy(name: str) -> PublishedBaseAccuracy:
    """The published table of base classifiers of that name."""
    return PublishedBaseAccuracy(**_table(name, BASE_ACCURACY, PublishedBaseRow))


def published_attacks(name: str) -> PublishedAttacks:
    """The published table of attacked classifiers of that name."""
    table = _table(name, ATTACKS, PublishedAttackedRow)
    return PublishedAttacks(**table.pop("settings"), **table)


def published_medians(name: str) -> PublishedMedians:
    """The published medians of that name."""
    return PublishedMedians(**_table(name, MEDIANS, PublishedMedian))


def published_patches(name: str) -> Published[PublishedPatch]:
    """The published certificates against patches of that name."""
    return Published(**_table(name, PATCHES, PublishedPatch))


def published_schemes(name: str) -> Published[PublishedSchemesRow]:
    """The published comparison of schemes of that name."""
    return Published(**_table(name, SCHEMES, PublishedSchemesRow))


def names(kind: str = CERTIFICATES) -> list[str]:
    """The names of the tables of that kind."""
    return sorted(path.stem for path in FOLDER.glob("*.json") if _read(path)["kind"] == kind)


def _table(name: str, kind: str, row: type) -> dict[str, Any]:
    """What the file says, with its rows as `row`."""
    if name not in names(kind):
        raise InputError(f"published table must be one of {', '.join(names(kind))}, got {name!r}")
    table = _read(FOLDER / f"{name}.json")
    del table["kind"]
    rows, remarks = (row(**each) for each in table["rows"]), table.get("remarks", ())
    return {**table, "rows": tuple(rows), "remarks": tuple(remarks)}


def _read(path: Path) -> dict[str, Any]:
    table: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return table
