"""The simpler encoding of the paper's Table 8: NULL is the training set's mean value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sparsecert.encodings.encoding import (
    Encoding,
    broadcast_channels,
    per_channel,
    repeat_channels,
    warn_of_other_range,
)
from sparsecert.errors import InputError
from sparsecert.registry import ENCODINGS

if TYPE_CHECKING:
    from sparsecert.datasets import Dataset
    from sparsecert.schemes import Scheme
    from sparsecert.training.recipe import Recipe


@ENCODINGS.register("mean-fill")
class MeanFill(Encoding):
    """Retained units as they are, NULL = `mean`, one number per channel: the training set's mean pixel.

    Sound like any encoding (the mean is a constant, not a statistic of the input), but a retained unit whose value
    equals the mean cannot be told from NULL. `centred` subtracts the mean from all values, so that NULL is 0:
    equivalent for a network in exact arithmetic, except for zero padding, and more accurate in bf16.
    """

    def __init__(self, mean: Any, centred: bool = False, std: None = None) -> None:
        if std is not None or not isinstance(centred, bool | np.bool_):
            raise InputError(
                "MeanFill takes no std: its second argument, centred, must be True or False, got "
                f"{centred if std is None else std!r}; standardise inside the model"
            )
        self.mean, self.centred = per_channel("mean", mean), bool(centred)

    @classmethod
    def for_training(cls, data: Dataset, recipe: Recipe, scheme: Scheme | None = None, **settings: Any) -> MeanFill:
        """The data set's mean; centred in bf16."""
        return cls(data.mean, centred=recipe.precision == "bf16", **settings)

    def encode(self, inputs: torch.Tensor, retained: torch.Tensor) -> torch.Tensor:
        """Float[rows, channels, *places]."""
        mean = broadcast_channels(self.mean, "mean", inputs)
        return torch.where(retained, inputs - mean, 0) if self.centred else torch.where(retained, inputs, mean)

    def affine(self, channels: int) -> list[tuple[int, float, float, float]]:
        means = repeat_channels(self.mean, channels)
        return [(c, 1.0, -mean, 0.0) if self.centred else (c, 1.0, 0.0, mean) for c, mean in enumerate(means)]

    def channels(self, channels: int) -> int:
        return channels

    def check_inputs(self, inputs: torch.Tensor) -> None:
        """A mean of values in [0, 1] is no NULL among others, nor the other way round; certificates hold all the same.

        0 is the mean of standardised values too.
        """
        if max(self.mean) <= 1:
            warn_of_other_range(inputs, f"the mean {self.mean} is one of", any_range=max(self.mean) <= 0)
        elif inputs.ndim >= 4 and inputs.min() >= 0 and inputs.max() <= 1 and not torch.equal(inputs, inputs.round()):
            raise InputError(
                f"mean must be one of values in [0, 1], as the inputs are, got {self.mean}; of 8-bit values pass "
                "mean / 255"
            )

    def config(self) -> dict[str, Any]:
        """Without `centred` where it is False, as in files from before there was this setting."""
        centred = {"centred": True} if self.centred else {}
        return {"kind": ENCODINGS.name_of(type(self)), "mean": list(self.mean), **centred}

    def __repr__(self) -> str:
        return f"MeanFill(mean={self.mean}{', centred=True' if self.centred else ''})"
