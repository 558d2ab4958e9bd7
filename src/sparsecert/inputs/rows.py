"""Rows of a table as inputs: a unit is a column, or a group of columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sparsecert.counts import Float64, Int64
from sparsecert.errors import InputError
from sparsecert.files import file_hash
from sparsecert.inputs import FileInputs, number_labels
from sparsecert.inputs.units import Units


@dataclass(frozen=True, eq=False)
class Rows(FileInputs):
    """The rows of a file as the model's trees see them: Float64[n, columns], NaN for missing values.

    `chosen` are the rows to certify: the held-out ones of the training file, all of any other. An input's index is that
    of its row in the file. `labels` is None for new rows, in a file without the target column.
    """

    name: str
    split: str
    values: Float64
    labels: Int64 | None
    classes: tuple[str, ...]
    chosen: Int64
    sha256: str
    notes: tuple[str, ...] = ()  # what the user should know of how the file was read

    @classmethod
    def read(cls, path: str | Path, metadata: Mapping[str, Any]) -> Rows:
        """The rows of a CSV or Parquet file with the columns of the training table in a model's `metadata`."""
        from sparsecert.tabular.tables import Columns, held_out, read_frame, split_target

        table = metadata.get("table")
        if table is None:
            raise InputError(f"the model was not trained on a table, and {path} is one; use images")
        columns = Columns.from_config(table)
        frame, classes, labels = read_frame(path, text=columns.text), tuple(metadata["class_names"]), None
        if table["target"] in frame.columns:
            frame, named = split_target(frame, table["target"])
            labels = number_labels(named.tolist(), classes, "table")
        values = columns.encode(frame)
        fingerprint = file_hash(path)
        same = fingerprint == table["sha256"]
        outside = held_out(len(frame), table["held_out"], table["seed"]) if same else np.ones(len(frame), dtype=bool)
        return cls(
            Path(path).name,
            "held-out" if same else "all",
            values,
            labels,
            classes,
            np.flatnonzero(outside),
            fingerprint,
            tuple(columns.unread(frame, values)),
        )

    @property
    def units(self) -> Units:
        return Units.of(self.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape[1:]

    def __len__(self) -> int:
        return len(self.values)

    def batch(self, indices: Sequence[int] | Int64) -> Float64:
        return self.values[np.asarray(indices, dtype=np.int64)]
