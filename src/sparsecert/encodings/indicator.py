"""NULL is a fill value with an indicator channel: for models that take no NaN."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from sparsecert.encodings.encoding import Encoding, per_channel
from sparsecert.errors import InputError
from sparsecert.registry import ENCODINGS

if TYPE_CHECKING:
    from sparsecert.datasets import Dataset
    from sparsecert.schemes import Scheme
    from sparsecert.training.recipe import Recipe


@ENCODINGS.register("indicator")
class Indicator(Encoding):
    """Ablated entries show the fill value of their place, and 1 in a second channel that is 0 elsewhere.

    A missing value (NaN) looks like NULL. `fill` has one number per place, such as the column means of a training
    table.
    """

    takes_missing = True

    def __init__(self, fill: Any) -> None:
        self.fill = per_channel("fill", fill)

    def encode(self, inputs: torch.Tensor, retained: torch.Tensor) -> torch.Tensor:
        absent = ~retained | inputs.isnan()
        fill = torch.tensor(self.fill, dtype=inputs.dtype, device=inputs.device).view(inputs.shape[2:])
        return torch.cat((torch.where(absent, fill, inputs), absent.to(inputs.dtype)), dim=1)

    @classmethod
    def for_training(cls, data: Dataset, recipe: Recipe, scheme: Scheme | None = None, **settings: Any) -> Encoding:
        raise InputError("encoding indicator is for rows of a table; AblatedClassifier takes it where it is needed")

    def channels(self, channels: int) -> int:
        return 2 * channels

    def __repr__(self) -> str:
        return f"Indicator({len(self.fill)} places)"
