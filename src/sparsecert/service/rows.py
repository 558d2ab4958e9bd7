"""Parses rows of a table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from sparsecert.errors import InputError
from sparsecert.service.parsing import as_float, short_repr

if TYPE_CHECKING:
    from sparsecert.tabular.tables import Columns


@dataclass(frozen=True, eq=False)
class RowParser:
    """Parses rows of the columns a model was trained on: numbers, text (categories, dates), null if missing.

    A row becomes Float64[1, columns]; missing values, unknown categories and what is no date become NaN.
    """

    columns: Columns

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.columns.names),)

    @property
    def names(self) -> list[str]:
        return list(self.columns.names)

    @property
    def categories(self) -> dict[str, list[str]]:
        return {name: list(known) for name, known in self.columns.categories.items()}

    def from_values(self, values: Any) -> torch.Tensor:
        """From a list of values in column order."""
        names = self.columns.names
        if not isinstance(values, list) or len(values) != len(names):
            found = len(values) if isinstance(values, list) else short_repr(values)
            raise InputError(f"values must be a list of {len(names)} values, one per column, got {found}")
        numbers = [self._number(name, value) for name, value in zip(names, values, strict=True)]
        return torch.tensor([numbers], dtype=torch.float64)

    def from_row(self, row: dict[str, Any]) -> torch.Tensor:
        """From values keyed by column name; every column must be present."""
        names = self.columns.names
        if lacking := [name for name in names if name not in row]:
            raise InputError(f"the row lacks the column {lacking[0]}; use null for a missing value")
        if strange := [name for name in row if name not in names]:
            raise InputError(f"the model has no column {short_repr(strange[0])}; it has {', '.join(names)}")
        return self.from_values([row[name] for name in names])

    def from_file(self, data: bytes) -> torch.Tensor:
        raise InputError("this model takes rows of a table, not images; send values or row")

    from_base64 = from_file

    def _number(self, name: str, value: Any) -> float:
        """A value as the trees see it; NaN if missing."""
        if value is None:
            return math.nan
        if (categories := self.columns.numbers.get(name)) is not None:
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                raise InputError(f"the column {name} must be text or null, got {short_repr(value)}")
            return categories.get(str(value).strip(), math.nan)
        if name in self.columns.dates:
            if not isinstance(value, str):
                raise InputError(
                    f"the column {name} must be a date such as 2024-12-31, or null, got {short_repr(value)}"
                )
            return self.columns.date(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"the column {name} must be a number or null, got {short_repr(value)}")
        number = as_float(value)
        if not math.isfinite(number):
            raise InputError(f"the column {name} must be a finite number that fits in 64 bits, or null")
        return number
