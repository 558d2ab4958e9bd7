"""Rows of a table from outside."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from sparsecert.errors import InputError
from sparsecert.service.inputs import as_float, named

if TYPE_CHECKING:
    from sparsecert.tabular.tables import Columns


@dataclass(frozen=True, eq=False)
class RowReading:
    """Rows of the columns that a model was trained on: numbers, text where training had text, null where missing.

    A row becomes Float64[1, columns]; a value that is missing, or a category that training did not have, is NaN.
    """

    columns: Columns
    units: str = "features"

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.columns.names),)

    @property
    def names(self) -> list[str]:
        return list(self.columns.names)

    def from_values(self, values: Any) -> torch.Tensor:
        """A list of the values, in the order of the columns."""
        names = self.columns.names
        if not isinstance(values, list) or len(values) != len(names):
            found = len(values) if isinstance(values, list) else named(values)
            raise InputError(f"values must be a list of {len(names)} values, one for each column of a row, got {found}")
        numbers = [self._number(name, value) for name, value in zip(names, values, strict=True)]
        return torch.tensor([numbers], dtype=torch.float64)

    def from_row(self, row: dict[str, Any]) -> torch.Tensor:
        """The values by the names of their columns, each of which has to be there."""
        names = self.columns.names
        if lacking := [name for name in names if name not in row]:
            raise InputError(f"the row lacks the column {lacking[0]}; write null for a value that is missing")
        if strange := [name for name in row if name not in names]:
            raise InputError(f"the model has no column {named(strange[0])}; it has {', '.join(names)}")
        return self.from_values([row[name] for name in names])

    def from_file(self, data: bytes) -> torch.Tensor:
        """Refuses a picture."""
        raise InputError("this model takes rows of a table, not pictures; send them as values or as row")

    from_base64 = from_file

    def _number(self, name: str, value: Any) -> float:
        """What the trees see of a value; NaN where it is missing."""
        if value is None:
            return math.nan
        categories = self.columns.categories.get(name)
        if categories is not None:
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                raise InputError(f"the column {name} must be text or null, got {named(value)}")
            text = str(value).strip()
            return float(categories.index(text)) if text in categories else math.nan
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"the column {name} must be a number or null, got {named(value)}")
        number = as_float(value)
        if not math.isfinite(number):
            raise InputError(f"the column {name} must be a finite number that 64 bits can hold, or null")
        return number
