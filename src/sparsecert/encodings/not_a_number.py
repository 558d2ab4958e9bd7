"""NULL is NaN: for models that take it, such as boosted trees."""

from __future__ import annotations

from typing import Any

import torch

from sparsecert.encodings.encoding import Encoding


class NotANumber(Encoding):
    """What is ablated is NaN. A value that is missing in the input is NaN too, so that it looks like NULL.

    That is sound: a missing value is a value like any other, and whoever deletes one has perturbed its unit.
    """

    takes_missing = True

    def encode(self, inputs: torch.Tensor, retained: torch.Tensor) -> torch.Tensor:
        return torch.where(retained, inputs, torch.nan)

    def channels(self, channels: int) -> int:
        return channels

    def config(self) -> dict[str, Any]:
        return {"kind": "nan"}

    def __repr__(self) -> str:
        return "NotANumber()"
