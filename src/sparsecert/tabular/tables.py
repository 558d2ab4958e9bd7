"""Tables from files, and how their columns become numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sparsecert.errors import InputError

Float = npt.NDArray[np.float64]
MISSING = "", "?"  # in a text column, besides what pandas knows; UCI's files write ? for a value that is missing


@dataclass(frozen=True)
class Columns:
    """The columns of a table in their order; those of text with their categories, numbered 0, 1, ... in this order.

    A category that was not there in training becomes NaN, and so does a missing value: both look like NULL. That is
    sound, as an altered value is an altered unit whatever it becomes.
    """

    names: tuple[str, ...]
    categories: dict[str, tuple[str, ...]]

    @classmethod
    def of(cls, frame: Any) -> Columns:
        """The columns of a table to train on."""
        text = {str(name): _texts(frame[name]) for name in frame.columns if not _is_number(frame[name])}
        known = {name: tuple(sorted({value for value in values if value is not None})) for name, values in text.items()}
        return cls(tuple(map(str, frame.columns)), known)

    def config(self) -> dict[str, Any]:
        """Plain JSON values; `from_config` makes the columns of them again."""
        return {
            "columns": list(self.names),
            "categories": {name: list(values) for name, values in self.categories.items()},
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Columns:
        categories = {name: tuple(values) for name, values in config["categories"].items()}
        return cls(tuple(config["columns"]), categories)

    def encode(self, frame: Any) -> Float:
        """Float[rows, columns]; other columns of the table are left out."""
        lacking = [name for name in self.names if name not in frame.columns]
        if lacking:
            raise InputError(f"the table lacks the columns {', '.join(lacking):.200}; use one like that of training")
        encoded = [self._column(name, frame[name]) for name in self.names]
        return np.stack(encoded, axis=1) if encoded else np.empty((len(frame), 0))

    def _column(self, name: str, column: Any) -> Float:
        if name in self.categories:
            numbers = {value: float(number) for number, value in enumerate(self.categories[name])}
            return np.array([np.nan if v is None else numbers.get(v, np.nan) for v in _texts(column)])
        if not _is_number(column):
            raise InputError(f"the column {name} was of numbers in training, and is not here")
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return np.where(np.isfinite(values), values, np.nan)


def read_frame(path: str | Path, text: Collection[str] = (), **settings: Any) -> Any:
    """A table as a pandas DataFrame, from a CSV file (also compressed) or from Parquet; columns are named by text.

    The columns `text` of a CSV file are taken as they are written: 01 is not 1, whatever stands in the other rows.
    """
    pandas, path = import_pandas(), Path(path).expanduser()
    if not path.is_file():
        raise InputError(f"{path} is not a file; name a table: CSV or Parquet")
    try:
        if path.suffix in (".parquet", ".pq"):
            frame = pandas.read_parquet(path)
        else:
            written = {name: str for name in _names(path, settings) if name.strip() in text}
            frame = pandas.read_csv(path, skipinitialspace=True, dtype=written, low_memory=False, **settings)
    except InputError:
        raise
    except ImportError as error:
        raise InputError("a Parquet file needs pyarrow; pip install pyarrow, or write the table as CSV") from error
    except (OSError, ValueError) as error:  # pandas' and pyarrow's own errors are ValueErrors
        raise InputError(f"{path} is not a table that can be read: {error}") from error
    frame.columns = [str(name).strip() for name in frame.columns]
    _refuse_equal(path, frame.columns)
    if not len(frame):
        raise InputError(f"{path} must have rows, and has none below its column names")
    return frame


def _names(path: Path, settings: dict[str, Any]) -> list[str]:
    """The names of a CSV file's columns as they are written there; none where it has no line of them.

    Two alike are refused: pandas would rename the second, be it the target again.
    """
    if "header" in settings:
        return []
    first = import_pandas().read_csv(path, skipinitialspace=True, header=None, nrows=1, dtype=str, **settings)
    names: list[str] = first.iloc[0].dropna().tolist()
    _refuse_equal(path, [name.strip() for name in names])
    return names


def _refuse_equal(path: Path, names: Iterable[str]) -> None:
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise InputError(f"{path} has several columns named {', '.join(twice):.200}; give each a name of its own")


def split_target(frame: Any, target: str) -> tuple[Any, npt.NDArray[Any]]:
    """The columns but for the target, and the target as text; rows without a target are refused."""
    check_column(target, frame.columns)
    labels = _texts(frame[target])
    if None in labels:
        raise InputError(f"the column {target} has no value in row {labels.index(None)}; delete such rows")
    if len(frame.columns) == 1:
        raise InputError(f"the table has no column besides {target}, the one to predict; it needs features too")
    return frame.drop(columns=[target]), np.array(labels, dtype=str)


def check_column(name: str, names: Sequence[str]) -> None:
    """Refuses a name that no column has."""
    if name not in names:
        alone = len(names) == 1 and any(mark in names[0] for mark in ";\t|")
        hint = "; separate them by commas" if alone else ""
        raise InputError(f"the table has no column {name!r}; its columns are {', '.join(names):.300}{hint}")


def held_out(rows: int, share: float, seed: int) -> npt.NDArray[np.bool_]:
    """bool[rows]: the rows that are kept from training, a share of them drawn by the seed."""
    if not 0 < share < 1 or not 0 < round(rows * share) < rows:
        raise InputError(
            f"held-out must be a share between 0 and 1 that leaves rows to train on, got {share} of {rows:,} rows"
        )
    found = np.zeros(rows, dtype=np.bool_)
    found[np.random.default_rng(seed).permutation(rows)[: round(rows * share)]] = True
    return found


def import_pandas() -> Any:
    """pandas, which reads the files."""
    try:
        import pandas
    except ImportError as error:
        raise InputError("pandas is not installed; pip install 'sparsecert[tables]'") from error
    return pandas


def _is_number(column: Any) -> bool:
    return bool(import_pandas().api.types.is_numeric_dtype(column))


def _texts(column: Any) -> list[str | None]:
    """The values as text without blanks around, None where missing."""
    missing = column.isna().tolist()
    texts = [None if gone else str(value).strip() for value, gone in zip(column.tolist(), missing, strict=True)]
    return [None if text in MISSING else text for text in texts]
