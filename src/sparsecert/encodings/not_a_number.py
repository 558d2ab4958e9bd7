"""NULL is NaN: for models that take it, such as boosted trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from sparsecert.encodings.encoding import Encoding
from sparsecert.encodings.grouped import Grouped
from sparsecert.errors import InputError
from sparsecert.registry import ENCODINGS

if TYPE_CHECKING:
    from sparsecert.datasets import Dataset
    from sparsecert.schemes import Scheme
    from sparsecert.training.recipe import Recipe


class _NaN(Encoding):
    takes_missing = True

    def encode(self, inputs: torch.Tensor, retained: torch.Tensor) -> torch.Tensor:
        return torch.where(retained, inputs, torch.nan)

    def channels(self, channels: int) -> int:
        return channels


@ENCODINGS.register("nan")
class NotANumber(Grouped):
    """Ablated entries are NaN; `units` has the unit of each column, or PROTECTED, as in `Grouped`.

    A missing value is NaN too and looks like NULL. That is sound: deleting a value perturbs its unit.
    """

    def __init__(self, units: Any) -> None:
        super().__init__(_NaN(), units)

    @classmethod
    def for_training(cls, data: Dataset, recipe: Recipe, scheme: Scheme | None = None, **settings: Any) -> Encoding:
        raise InputError("encoding nan is for rows of a table; sparsecert train TABLE takes it by itself")

    def config(self) -> dict[str, Any]:
        return {"kind": ENCODINGS.name_of(type(self)), "units": self.groups.tolist()}

    def __repr__(self) -> str:
        return f"NotANumber({self.count} units)"
