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

    def __init__(self, marked: bool) -> None:
        self.marked = marked

    def encode(self, inputs: torch.Tensor, retained: torch.Tensor) -> torch.Tensor:
        values = torch.where(retained, inputs, torch.nan)
        return torch.cat((values, retained.to(values.dtype).expand_as(values)), dim=1) if self.marked else values

    def channels(self, channels: int) -> int:
        return 2 * channels if self.marked else channels


@ENCODINGS.register("nan")
class NotANumber(Grouped):
    """Ablated entries are NaN; `units` has the unit of each column, or PROTECTED, as in `Grouped`.

    A missing value is NaN too and looks like NULL. That is sound: deleting a value perturbs its unit. `marked` adds a
    second channel that is 1 for retained entries, missing or not, and 0 for ablated ones: it shows the mask.
    """

    def __init__(self, units: Any, marked: bool = False) -> None:
        super().__init__(_NaN(marked), units)
        self.marked = marked

    @classmethod
    def for_training(cls, data: Dataset, recipe: Recipe, scheme: Scheme | None = None, **settings: Any) -> Encoding:
        raise InputError("encoding nan is for rows of a table; sparsecert train TABLE takes it by itself")

    def config(self) -> dict[str, Any]:
        marked = {"marked": True} if self.marked else {}  # not in files from before there was this setting
        return {"kind": ENCODINGS.name_of(type(self)), "units": self.groups.tolist(), **marked}

    def __repr__(self) -> str:
        return f"NotANumber({self.count} units{', marked' if self.marked else ''})"
