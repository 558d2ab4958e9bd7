"""The paper's tables as data, each with its source, to compare measured numbers with. No torch here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparsecert.errors import InputError

FOLDER = Path(__file__).parent
CERTIFICATES, BASE_ACCURACY, ATTACKS, SCHEMES = "certificates", "base-accuracy", "attacks", "schemes"  # the kinds
MEDIANS, PATCHES = "medians", "patches"  # of other papers


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


@dataclass(frozen=True)
class PublishedTable:
    """A published table of certificates: its source, subject, settings, rows and remarks."""

    name: str
    source: str
    about: str
    data: str
    sampling: Sampling
    rows: tuple[PublishedRow, ...]
    remarks: tuple[str, ...] = ()


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


@dataclass(frozen=True)
class PublishedBaseAccuracy:
    """A published table of base classifiers, all of the architecture `model`: its source and rows."""

    name: str
    source: str
    about: str
    data: str
    model: str
    rows: tuple[PublishedBaseRow, ...]


@dataclass(frozen=True)
class PublishedAttackedRow:
    """One row as printed: accuracy in percent, and the median number of pixels that fooled the classifier.

    model: how this package names a classifier of that kind, None where it has none. keep: of a smoothed one.
    """

    printed: str
    model: str | None
    accuracy: float
    median: float
    measured_by: str
    keep: int | None = None


@dataclass(frozen=True)
class PublishedAttacks:
    """A published table of attacked classifiers: its source, its subject, and how the paper's own row was attacked."""

    name: str
    source: str
    about: str
    data: str
    attack: str
    restarts: int
    images: int
    predict_n: int
    alpha: float
    rows: tuple[PublishedAttackedRow, ...]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class PublishedMedians:
    """The best published median certified robustness of each data set, and its source."""

    name: str
    source: str
    about: str
    medians: dict[str, int]

    def of(self, data: str) -> int | None:
        """The median for this data set, if any."""
        return self.medians.get(data)


@dataclass(frozen=True)
class PublishedPatch:
    """Percentages as printed: accuracy, and the share certified against a patch of `side` pixels a side."""

    data: str
    side: int
    accuracy: float
    certified: float


@dataclass(frozen=True)
class PublishedPatches:
    """Published certificates against patches, and their source."""

    name: str
    source: str
    about: str
    rows: tuple[PublishedPatch, ...]


@dataclass(frozen=True)
class PublishedSchemesRow:
    """One row as printed: the median certified robustness by each scheme on a data set; `keep` is ablation's best k."""

    data: str
    random_values: int
    ablation: int
    keep: int


@dataclass(frozen=True)
class PublishedSchemes:
    """A published comparison of two schemes: its source, subject and rows."""

    name: str
    source: str
    about: str
    rows: tuple[PublishedSchemesRow, ...]
    remarks: tuple[str, ...] = ()


def published(name: str) -> PublishedTable:
    """The published table of certificates of that name."""
    table = _table(name, CERTIFICATES)
    sampling, rows = Sampling(**table.pop("settings")), tuple(PublishedRow(**row) for row in table.pop("rows"))
    return PublishedTable(sampling=sampling, rows=rows, remarks=tuple(table.pop("remarks", ())), **table)


def published_base_accuracy(name: str) -> PublishedBaseAccuracy:
    """The published table of base classifiers of that name."""
    table = _table(name, BASE_ACCURACY)
    return PublishedBaseAccuracy(rows=tuple(PublishedBaseRow(**row) for row in table.pop("rows")), **table)


def published_attacks(name: str) -> PublishedAttacks:
    """The published table of attacked classifiers of that name."""
    table = _table(name, ATTACKS)
    settings, rows = table.pop("settings"), tuple(PublishedAttackedRow(**row) for row in table.pop("rows"))
    return PublishedAttacks(rows=rows, remarks=tuple(table.pop("remarks", ())), **settings, **table)


def published_medians(name: str) -> PublishedMedians:
    """The published medians of that name."""
    table = _table(name, MEDIANS)
    return PublishedMedians(medians={row["data"]: row["median"] for row in table.pop("rows")}, **table)


def published_patches(name: str) -> PublishedPatches:
    """The published certificates against patches of that name."""
    table = _table(name, PATCHES)
    return PublishedPatches(rows=tuple(PublishedPatch(**row) for row in table.pop("rows")), **table)


def published_schemes(name: str) -> PublishedSchemes:
    """The published comparison of schemes of that name."""
    table = _table(name, SCHEMES)
    rows, remarks = tuple(PublishedSchemesRow(**row) for row in table.pop("rows")), tuple(table.pop("remarks"))
    return PublishedSchemes(rows=rows, remarks=remarks, **table)


def names(kind: str = CERTIFICATES) -> list[str]:
    """The names of the tables of that kind."""
    return sorted(path.stem for path in FOLDER.glob("*.json") if _read(path)["kind"] == kind)


def _table(name: str, kind: str) -> dict[str, Any]:
    if name not in names(kind):
        raise InputError(f"published table must be one of {', '.join(names(kind))}, got {name!r}")
    table = _read(FOLDER / f"{name}.json")
    del table["kind"]
    return table


def _read(path: Path) -> dict[str, Any]:
    table: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return table
