"""Frames with text, categories and dates: a number for each value, and the value again for the base estimator."""

from __future__ import annotations

import sys
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sparsecert.counts import Bool, Float64
from sparsecert.errors import InputError
from sparsecert.tabular.tables import import_pandas

NUMBERS = "integer", "floating", "mixed-integer-float", "boolean", "decimal", "empty"  # by pandas' infer_dtype


@dataclass(frozen=True, eq=False)
class FrameValues:
    """The values that the numbers in each column of some rows stand for; called with rows, it gives the frame they are.

    known: for each column an array of values, of which a row holds the index, or None where the numbers are the values
    themselves. NaN, and a number that stands for no value, become the missing value of the column's type.

    An entry of the frame depends on the same entry of the rows alone, by a table of values of that column. So the
    frame of an ablated row tells nothing of its ablated columns, whatever encodes it afterwards.
    """

    names: tuple[Any, ...]
    known: tuple[Any, ...]

    def __call__(self, rows: Float64) -> Any:
        import pandas

        columns = [self._column(rows[:, place], known) for place, known in enumerate(self.known)]
        if all(known is None for known in self.known):
            return pandas.DataFrame(rows, columns=list(self.names))
        frame = pandas.concat([pandas.Series(column) for column in columns], axis=1)
        frame.columns = list(self.names)
        return frame

    def part(self, columns: Bool) -> FrameValues:
        """The same for some of the columns."""
        places = np.flatnonzero(columns).tolist()
        return FrameValues(tuple(self.names[i] for i in places), tuple(self.known[i] for i in places))

    @property
    def coded(self) -> Bool:
        """bool[columns]: those whose numbers stand for other values."""
        return np.array([known is not None for known in self.known], dtype=np.bool_)

    def hashable(self, rows: Float64) -> Float64:
        """The rows with a hash of each value instead of its number, so that equal rows are equal."""
        rows = rows.copy()
        for place, known in enumerate(self.known):
            if known is not None:
                hashes = np.array([*(float(zlib.crc32(str(value).encode())) for value in known), np.nan])
                rows[:, place] = hashes[_codes(rows[:, place], len(known))]
        return rows

    @staticmethod
    def _column(numbers: Float64, known: Any) -> Any:
        from pandas.api.extensions import take

        return numbers if known is None else take(known, _codes(numbers, len(known)), allow_fill=True)


@dataclass(frozen=True, eq=False)
class FrameColumns:
    """The columns of a training frame: names and types, None for numbers (of any kind, and booleans)."""

    names: tuple[Any, ...]
    types: tuple[Any, ...]

    @classmethod
    def of(cls, X: Any) -> FrameColumns | None:
        """None for what is no pandas frame."""
        if not _is_frame(X):
            return None
        columns = [X.iloc[:, place] for place in range(X.shape[1])]
        return cls(tuple(X.columns), tuple(None if _is_number(column) else column.dtype for column in columns))

    @property
    def numeric(self) -> bool:
        """Whether all columns are numbers."""
        return all(kind is None for kind in self.types)

    def encode(self, X: Any) -> tuple[Any, FrameValues]:
        """The frame in numbers, and what these stand for: in other columns than of numbers, the place of the row.

        Values are not merged, equal or not: to Python 1 and True are equal, to an encoder they may not be.
        Categories unseen in training are missing values; text and dates are not.
        """
        if not _is_frame(X):
            if not self.numeric:
                raise InputError("the classifier was fitted on a frame with text, categories or dates; give it a frame")
            return X, FrameValues(self.names, (None,) * len(self.names))
        found = [self._numbers(place, X.iloc[:, place]) for place in range(len(self.names))]
        values = FrameValues(self.names, tuple(known for _, known in found))
        rows = np.stack([numbers for numbers, _ in found], axis=1) if found else np.empty((len(X), 0))
        return import_pandas().DataFrame(rows, columns=X.columns, index=X.index), values

    def _numbers(self, place: int, column: Any) -> tuple[Float64, Any]:
        import pandas

        kind, name = self.types[place], self.names[place]
        if kind is None:
            if not _is_number(column):
                raise InputError(f"the column {name} was numeric in training and is {column.dtype} here")
            return column.to_numpy(dtype=np.float64, na_value=np.nan), None
        try:
            if isinstance(kind, pandas.CategoricalDtype):
                known = pandas.Categorical.from_codes(kind.categories.get_indexer(column.astype(object)), dtype=kind)
            else:
                known = column.astype(kind).array
        except (TypeError, ValueError) as error:
            raise InputError(f"the column {name} cannot be read as {kind}, its type in training: {error}") from error
        return np.where(np.asarray(pandas.isna(known)), np.nan, np.arange(len(known), dtype=np.float64)), known


def _is_frame(X: Any) -> bool:
    """Whether this is a pandas frame; where pandas was never imported, nothing is."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(X, pandas.DataFrame)


def _is_number(column: Any) -> bool:
    """Whether a column holds numbers or booleans, by its type or, of mere objects, one by one."""
    from pandas.api.types import infer_dtype, is_numeric_dtype, is_object_dtype

    return bool(is_numeric_dtype(column) or (is_object_dtype(column) and infer_dtype(column, skipna=True) in NUMBERS))


def _codes(numbers: Float64, known: int) -> npt.NDArray[np.intp]:
    """intp[rows]: the indices of known values that these numbers are, -1 for any other number and NaN."""
    return np.where((numbers >= 0) & (numbers < known), numbers, -1).astype(np.intp)
