"""Reads tables from files and encodes their columns as numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sparsecert import inputs
from sparsecert.counts import Bool, Float64
from sparsecert.errors import InputError

MISSING = "", "?"  # in text columns, besides what pandas knows; UCI's files write ?
DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?!\d)")  # how the text of a date begins (ISO 8601)
NUMBER, CATEGORY, DAY = "number", "category", "date"
FEW_ROWS = 20  # with fewer, values that differ in every row say nothing


@dataclass(frozen=True)
class Columns:
    """The columns of a table, in order; text columns have categories, numbered 0, 1, ..., dates become days since 1970.

    Missing values, categories unknown in training and what is no date among dates become NaN, which looks like NULL.
    That is sound: a perturbed value is a perturbed unit whatever it becomes. How a column is read depends on that
    column alone.
    """

    names: tuple[str, ...]
    categories: dict[str, tuple[str, ...]]
    dates: frozenset[str] = frozenset()

    @classmethod
    def of(cls, frame: Any) -> Columns:
        """The columns of a training table."""
        text = {str(name): _texts(frame[name]) for name in frame.columns if not _is_number(frame[name])}
        known = {name: tuple(sorted({value for value in values if value is not None})) for name, values in text.items()}
        dates = frozenset(name for name, values in known.items() if _are_dates(values))
        categories = {name: values for name, values in known.items() if name not in dates}
        return cls(tuple(map(str, frame.columns)), categories, dates)

    @property
    def text(self) -> frozenset[str]:
        """The columns to read from a CSV file as they are written."""
        return self.dates.union(self.categories)

    def kind(self, name: str) -> str:
        """How a column is read: number, category or date."""
        return DAY if name in self.dates else CATEGORY if name in self.categories else NUMBER

    @cached_property
    def numbers(self) -> dict[str, dict[str, float]]:
        """Of each text column, the number of each category."""
        return {name: {v: float(number) for number, v in enumerate(known)} for name, known in self.categories.items()}

    def config(self) -> dict[str, Any]:
        """Plain JSON values, for `from_config`."""
        return {
            "columns": list(self.names),
            "categories": {name: list(values) for name, values in self.categories.items()},
            **({"dates": sorted(self.dates)} if self.dates else {}),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Columns:
        categories = {name: tuple(values) for name, values in config["categories"].items()}
        return cls(tuple(config["columns"]), categories, frozenset(config.get("dates", ())))

    def encode(self, frame: Any) -> Float64:
        """Float[rows, columns]; other columns of the table are ignored."""
        lacking = [name for name in self.names if name not in frame.columns]
        if lacking:
            raise InputError(f"the table lacks the columns {', '.join(lacking):.200}; the model was trained on them")
        encoded = [self._column(name, frame[name]) for name in self.names]
        return np.stack(encoded, axis=1) if encoded else np.empty((len(frame), 0))

    def unread(self, frame: Any, encoded: Float64) -> list[str]:
        """A line for each column with values that became NaN though they are there: new categories, no dates."""
        lines = []
        for place, name in enumerate(self.names):
            if name not in self.text:
                continue
            there = np.array([text is not None for text in _texts(frame[name])], dtype=np.bool_)
            count = int((np.isnan(encoded[:, place]) & there).sum())
            what = "are no dates" if name in self.dates else "do not occur in training"
            lines += [f"{name}: {count:,} of {len(there):,} values {what}; read as missing"] if count else []
        return lines

    def date(self, text: str) -> float:
        """The number of a date; NaN if it is none."""
        return float(_days([text.strip()])[0])

    def _column(self, name: str, column: Any) -> Float64:
        if (numbers := self.numbers.get(name)) is not None:
            return np.array([np.nan if v is None else numbers.get(v, np.nan) for v in _texts(column)])
        if name in self.dates:
            return _days(_texts(column))
        if not _is_number(column):
            raise InputError(f"the column {name} was numeric in training and is not here")
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return np.where(np.isfinite(values), values, np.nan)


def describe_columns(columns: Columns, frame: Any, dropped: Sequence[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """How each column of a training table is read, and which look like identifiers: a value of its own in every row.

    A model learns nothing from those that holds for other rows, and each mask wastes a place on them.
    """
    lines, suspects = [], []
    for name in columns.names:
        kind, filled = columns.kind(name), frame[name].dropna()
        values = len(columns.categories[name]) if kind == CATEGORY else filled.nunique()
        counted = "value" if values == 1 else "values"
        lines.append((name, f"{kind}, {values:,} {counted}" if kind == CATEGORY or values < 2 else kind))
        whole = kind == CATEGORY or (kind == NUMBER and bool((filled.to_numpy(dtype=np.float64) % 1 == 0).all()))
        if whole and values == len(filled) > FEW_ROWS:
            suspects.append(name)
    return [*lines, *((name, "left out") for name in dropped)], suspects


def read_frame(path: str | Path, text: Collection[str] = (), **settings: Any) -> Any:
    """A pandas DataFrame from a CSV (possibly compressed) or Parquet file; column names become text.

    The columns `text` of a CSV file are read as text: 01 is not 1, whatever the other rows hold.
    """
    pandas, path = import_pandas(), Path(path).expanduser()
    if not path.is_file():
        raise InputError(f"{path} is not a file; give a CSV or Parquet file")
    try:
        if path.suffix in (".parquet", ".pq"):
            frame = pandas.read_parquet(path)
        else:
            written = {name: str for name in _names(path, settings) if name.strip() in text}
            frame = pandas.read_csv(path, skipinitialspace=True, dtype=written, low_memory=False, **settings)
    except InputError:
        raise
    except ImportError as error:
        raise InputError("Parquet needs pyarrow; pip install pyarrow, or save the table as CSV") from error
    except (OSError, ValueError) as error:  # pandas' and pyarrow's own errors are ValueErrors
        raise InputError(f"{path} cannot be read as a table: {error}") from error
    frame.columns = [str(name).strip() for name in frame.columns]
    _refuse_duplicates(path, frame.columns)
    if not len(frame):
        raise InputError(f"{path} has no rows")
    return frame


def _names(path: Path, settings: dict[str, Any]) -> list[str]:
    """The column names in a CSV file's header line, if it has one.

    Duplicates are refused: pandas would rename the second, even if it is the target.
    """
    if "header" in settings:
        return []
    first = import_pandas().read_csv(path, skipinitialspace=True, header=None, nrows=1, dtype=str, **settings)
    names: list[str] = first.iloc[0].dropna().tolist()
    _refuse_duplicates(path, [name.strip() for name in names])
    return names


def _refuse_duplicates(path: Path, names: Iterable[str]) -> None:
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise InputError(f"{path} has several columns named {', '.join(twice):.200}; rename them")


def split_target(frame: Any, target: str) -> tuple[Any, npt.NDArray[Any]]:
    """The features, and the target as text; rows without a target are refused."""
    check_column(target, frame.columns)
    labels = _texts(frame[target])
    if None in labels:
        raise InputError(f"the column {target} is empty in row {labels.index(None)}; delete such rows")
    if len(frame.columns) == 1:
        raise InputError(f"the table has no column besides the target {target}; it needs features")
    return frame.drop(columns=[target]), np.array(labels, dtype=str)


def check_column(name: str, names: Sequence[str]) -> None:
    """Refuses an unknown column name."""
    if name not in names:
        alone = len(names) == 1 and any(mark in names[0] for mark in ";\t|")
        hint = "; is it separated by commas?" if alone else ""
        raise InputError(f"the table has no column {name!r}; its columns are {', '.join(names):.300}{hint}")


def held_out(rows: int, share: float, seed: int) -> Bool:
    """bool[rows]: a random share of the rows, held out of training."""
    if not 0 < share < 1 or not 0 < round(rows * share) < rows:
        raise InputError(
            f"held-out must be a share between 0 and 1 that leaves training rows, got {share} of {rows:,} rows"
        )
    return inputs.held_out(rows, round(rows * share), seed)


def import_pandas() -> Any:
    """pandas, or an error that says how to install it."""
    try:
        import pandas
    except ImportError as error:
        raise InputError("pandas is not installed; pip install 'sparsecert[tables]'") from error
    return pandas


def _is_number(column: Any) -> bool:
    return bool(import_pandas().api.types.is_numeric_dtype(column))


def _texts(column: Any) -> list[str | None]:
    """The values as stripped text, None where missing."""
    missing = column.isna().tolist()
    texts = [None if gone else str(value).strip() for value, gone in zip(column.tolist(), missing, strict=True)]
    return [None if text in MISSING else text for text in texts]


def _are_dates(values: Collection[str]) -> bool:
    """Whether these texts are all dates, with or without a time."""
    return bool(values) and all(map(DATE.match, values)) and not bool(np.isnan(_days(list(values))).any())


def _days(texts: Sequence[str | None]) -> Float64:
    """Float[rows]: days since 1970, in UTC; NaN for what is no date."""
    pandas = import_pandas()
    times = pandas.to_datetime(pandas.Series(texts, dtype=object), format="ISO8601", utc=True, errors="coerce")
    found: Float64 = ((times - pandas.Timestamp(0, tz="UTC")) / pandas.Timedelta(days=1)).to_numpy(dtype=np.float64)
    return found
