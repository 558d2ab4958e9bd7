"""UCI tables by name, from the folder `tabular` of the data folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sparsecert.counts import Float64, Int64
from sparsecert.datasets.location import VARIABLE, data_folder
from sparsecert.errors import InputError
from sparsecert.tabular.tables import Columns, import_pandas, read_frame, split_target

SPAM = "spam"


@dataclass(frozen=True)
class Source:
    """The files of a table (concatenated), its target, and row-id columns to drop."""

    files: tuple[str, ...]
    target: str
    dropped: tuple[str, ...] = ()
    header: bool = True  # whether the first line has the column names


SOURCES = {
    "spambase": Source(("spambase.data",), SPAM, header=False),
    "adult": Source(("adult.data", "adult.test"), "Y"),
    "credit-default": Source(("UCI_Credit_Card.csv",), "Default", ("ID",)),
    "phishing": Source(("phishing.csv",), "class", ("Index",)),
}


@dataclass(frozen=True, eq=False)
class UciTable:
    """rows: Float[n, columns], encoded by `columns`; labels: int64[n], indices into `classes`."""

    name: str
    columns: Columns
    rows: Float64
    labels: Int64
    classes: tuple[str, ...]


def load_table(name: str, data_dir: str | Path | None = None) -> UciTable:
    """A table of SOURCES, from `tabular` under `data_dir`, SPARSECERT_DATA or `data`."""
    if name not in SOURCES:
        raise InputError(f"table must be one of {', '.join(SOURCES)}, got {name!r}")
    source, folder = SOURCES[name], data_folder(data_dir) / "tabular"
    lacking = [file for file in source.files if not (folder / file).is_file()]
    if lacking:
        raise InputError(f"{name} needs {', '.join(lacking)} from the UCI repository in {folder}; see {VARIABLE}")
    frames = [_frame(folder / file, source) for file in source.files]
    frame = import_pandas().concat(frames, ignore_index=True).drop(columns=list(source.dropped))
    features, target = split_target(frame, source.target)
    classes, labels = np.unique([label.rstrip(".") for label in target], return_inverse=True)  # adult.test writes 50K.
    columns = Columns.of(features)
    return UciTable(name, columns, columns.encode(features), labels.astype(np.int64), tuple(map(str, classes)))


def _frame(path: Path, source: Source) -> Any:
    if source.header:
        return read_frame(path)
    frame = read_frame(path, header=None)
    frame.columns = [*map(str, range(len(frame.columns) - 1)), source.target]
    return frame
