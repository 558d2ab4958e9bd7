"""The paper's encoding: a value s becomes (s, 1 - s), NULL becomes zeros."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch

from sparsecert.encodings.encoding import (
    Encoding,
    broadcast_channels,
    per_channel,
    repeat_channels,
    warn_of_other_range,
)
from sparsecert.errors import InputError
from sparsecert.registry import ENCODINGS, Option

if TYPE_CHECKING:
    from sparsecert.datasets import Dataset
    from sparsecert.schemes import Scheme
    from sparsecert.training.recipe import Recipe


@ENCODINGS.register("null-channels")
class NullChannels(Encoding):
    """s -> (s, 1 - s) and NULL -> (0, 0): one channel becomes two, three become six (r, g, b, 1-r, 1-g, 1-b).

    For values in [0, 1] NULL differs from every colour and favours none. With `mean` and `std` (one number per channel,
    of the training set) each channel is standardised first, as the paper does for ImageNet; these are constants, never
    statistics of the input, which would leak ablated units to the model.
    """

    options: ClassVar[tuple[Option, ...]] = (
        Option("--mean", str, "Subtracted from each channel, such as 0.485,0.456,0.406; needs --std."),
        Option("--std", str, "Each channel, less its mean, is divided by this; needs --mean."),
    )

    def __init__(self, mean: Any = None, std: Any = None) -> None:
        if (mean is None) != (std is None):
            raise InputError("mean and std go together: give both or neither")
        self.mean = None if mean is None else per_channel("mean", mean)
        self.std = None if std is None else per_channel("std", std)
        if self.std is not None and min(self.std) <= 0:
            raise InputError(f"std must be positive for each channel, got {std!r}")

    @classmethod
    def for_training(cls, data: Dataset, recipe: Recipe, scheme: Scheme | None = None, **settings: Any) -> NullChannels:
        """Standardised by the numbers given, else by the data set's where the recipe asks for it."""
        if settings:
            return cls(**{name: _numbers(name, text) for name, text in settings.items()})
        return cls(data.mean, data.std) if recipe.normalise else cls()

    def encode(self, inputs: torch.Tensor, retained: torch.Tensor) -> torch.Tensor:
        """Float[rows, 2 * channels, *places]."""
        if self.mean is not None and self.std is not None:
            inputs = (inputs - broadcast_channels(self.mean, "mean", inputs)) / broadcast_channels(
                self.std, "std", inputs
            )
        if retained.shape[1] > 1:  # each channel apart
            retained = torch.cat((retained, retained), dim=1)
        return torch.where(retained, torch.cat((inputs, 1 - inputs), dim=1), 0)

    def affine(self, channels: int) -> list[tuple[int, float, float, float]]:
        mean, std = (repeat_channels(values, channels) for values in (self.mean or (0.0,), self.std or (1.0,)))
        shown = [(c, 1 / std[c], -mean[c] / std[c], 0.0) for c in range(channels)]
        return [*shown, *((c, -scale, 1 - shift, 0.0) for c, scale, shift, _ in shown)]

    def channels(self, channels: int) -> int:
        return 2 * channels

    def check_inputs(self, inputs: torch.Tensor) -> None:
        """Images beyond [0, 1] are probably 8-bit values that nobody divided, or standardised already; certificates
        hold all the same.
        """
        if self.mean is None or max(self.mean) <= 1:
            warn_of_other_range(
                inputs, "NullChannels is made for" if self.mean is None else f"the mean {self.mean} is one of"
            )

    def __repr__(self) -> str:
        return "NullChannels()" if self.mean is None else f"NullChannels(mean={self.mean}, std={self.std})"


def _numbers(name: str, text: str) -> list[float]:
    """The numbers of an option, one per channel."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(f"{name} must be numbers separated by commas, such as 0.5,0.4,0.6, got {text!r}") from error
