"""The tables that the study measures, by name, from the folder `tabular` among the data sets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sparsecert.datasets.location import VARIABLE, data_folder
from sparsecert.errors import InputError
from sparsecert.tabular.tables import Columns, import_pandas, read_frame, split_target

SPAM = "spam"


@dataclass(frozen=True)
class Source:
    """The files of a table (joined one after the other), its target, and columns that only number the rows."""

    files: tuple[str, ...]
    target: str
    dropped: tuple[str, ...] = ()
    named: bool = True  # whether the first line names the columns


SOURCES = {
    "spambase": Source(("spambase.data",), SPAM, named=False),
    "adult": Source(("adult.data", "adult.test"), "Y"),
    "credit-default": Source(("UCI_Credit_Card.csv",), "Default", ("ID",)),
    "phishing": Source(("phishing.csv",), "class", ("Index",)),
}


@dataclass(frozen=True, eq=False)
class UciTable:
    """rows: Float[n, columns], categories numbered and what is missing NaN; labels: int64[n], of `classes`."""

    name: str
    columns: Columns
    rows: npt.NDArray[np.float64]
    labels: npt.NDArray[np.int64]
    classes: tuple[str, ...]


def load_table(name: str, data_dir: str | Path | None = None) -> UciTable:
    """A table of SOURCES, looked for in `tabular` under `data_dir`, SPARSECERT_DATA or `data`."""
    if name not in SOURCES:
        raise InputError(f"table must be one of {', '.join(SOURCES)}, got {name!r}")
    source, folder = SOURCES[name], data_folder(data_dir) / "tabular"
    lacking = [file for file in source.files if not (folder / file).is_file()]
    if lacking:
        raise InputError(f"{name} needs {', '.join(lacking)} of the UCI repository in {folder}; see {VARIABLE}")
    frames = [_frame(folder / file, source) for file in source.files]
    frame = import_pandas().concat(frames, ignore_index=True).drop(columns=list(source.dropped))
    features, target = split_target(frame, source.target)
    classes, labels = np.unique([label.rstrip(".") for label in target], return_inverse=True)  # adult.test writes 50K.
    columns = Columns.of(features)
    return UciTable(name, columns, columns.encode(features), labels.astype(np.int64), tuple(map(str, classes)))


def _frame(path: Path, source: Source) -> Any:
    if source.named:
        return read_frame(path)
    frame = read_frame(path, header=None)
    frame.columns = [*map(str, range(len(frame.columns) - 1)), source.target]
    return frame
