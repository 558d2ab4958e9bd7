"""Rows of a table from outside, and the classifier that `sparsecert train TABLE` wrote as one that can be served."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sparsecert.encodings import Grouped, MeanFill
from sparsecert.errors import InputError
from sparsecert.service.inputs import as_float, named
from sparsecert.smoothed import Smoothed

if TYPE_CHECKING:
    from sparsecert.tabular.run import TableModel
    from sparsecert.tabular.tables import Columns
    from sparsecert.tabular.trees import Trees

VALUE, PRESENT = 0, 1  # the two channels of a row


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of the columns that a model was trained on: numbers, text where training had text, null where missing.

    A row becomes Float64[1, 2, columns], its values and which of them are there. NULL is (0, 0), and so is a value that
    is missing, or a category that training did not have: as for `sparsecert certify`, all of these look the same.
    """

    columns: Columns
    units: str = "features"
    rule: str = "plurality"  # of fixed masks, as `sparsecert certify` elects
    precision: str | None = "fp64"

    @property
    def shape(self) -> tuple[int, ...]:
        """Of what the model is given."""
        return 2, len(self.columns.names)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of what is asked for."""
        return (len(self.columns.names),)

    @property
    def names(self) -> list[str]:
        """Of the columns."""
        return list(self.columns.names)

    def from_values(self, values: Any) -> torch.Tensor:
        """A list of the values, in the order of the columns."""
        names = self.columns.names
        if not isinstance(values, list) or len(values) != len(names):
            found = len(values) if isinstance(values, list) else named(values)
            raise InputError(f"values must be a list of {len(names)} values, one for each column of a row, got {found}")
        numbers = np.array([self._number(name, value) for name, value in zip(names, values, strict=True)])
        there = ~np.isnan(numbers)
        return torch.from_numpy(np.stack((np.where(there, numbers, 0.0), there.astype(np.float64))))[None]

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


@dataclass(frozen=True, eq=False)
class TreeScores:
    """The scores that boosted trees give to copies Float64[rows, 2, columns]; what is not there is NaN to them."""

    trees: Trees

    def __call__(self, copies: torch.Tensor) -> torch.Tensor:
        """Float64[rows, classes]."""
        values, there = (copies[:, channel].double().numpy() for channel in (VALUE, PRESENT))
        return torch.from_numpy(self.trees.scores(np.where(there > 0, values, np.nan)))


def smoothed_rows(model: TableModel, rows: int | None = None) -> Smoothed:
    """The classifier of a table: masks, votes and certificates are those of `sparsecert certify` on the same seed."""
    encoding = Grouped(MeanFill([0.0, 0.0]), model.ablated.units)
    facts = {
        "class_names": list(model.classes),
        "data": f"a table, its column {model.target}",
        "training": {"table": model.table, "held_out": model.held_out, "seed": model.seed},
    }
    trees = TreeScores(model.ablated.estimator)
    return Smoothed(trees, model.scheme, encoding, classes=len(model.classes), rows=rows, facts=facts)
