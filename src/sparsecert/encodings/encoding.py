"""The base class of encodings."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from sparsecert.errors import InputError
from sparsecert.inputs.units import Units
from sparsecert.registry import ENCODINGS, Option
from sparsecert.schemes import Scheme

if TYPE_CHECKING:
    from sparsecert.datasets import Dataset
    from sparsecert.training.recipe import Recipe


MARGIN = 0.1  # beyond [0, 1], where a resized image may overshoot
FAR_ABOVE_ONE = 32  # standardised values hardly reach this


class Encoding(ABC):
    """Turns inputs and masks into what the model sees, with NULL visible to it.

    Guarantee: the result depends on the retained units and the mask alone. Encodings select, they do not multiply: a
    product with zero would keep the sign of an ablated value, as -0.0.

    Inputs are Float[rows, channels, *places], or Float[rows, places] for one channel; the places, in row-major order,
    are the units. A pixel is one unit whatever its channels.

    `ReplacedValues` has another guarantee, because its scheme ablates nothing.
    """

    options: ClassVar[tuple[Option, ...]] = ()  # of `sparsecert train --encoding`

    protected: int = 0  # entries that are never ablated
    values: int | None = None  # of a unit, for an encoding of `RandomValues`
    takes_missing = False  # whether NaN in an input is a missing value; otherwise it is refused
    takes_integers = False  # whether inputs are int64, such as the numbers of words; otherwise they are floats

    def __call__(self, inputs: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
        """The ablated inputs; `masks` is Bool[rows, units], True = retained, or Bool[1, units] for one mask for all."""
        inputs = inputs if inputs.ndim > 2 else inputs[:, None]
        return self.encode(inputs, masks.view(len(masks), 1, *inputs.shape[2:]))

    @abstractmethod
    def encode(self, inputs: torch.Tensor, retained: torch.Tensor) -> torch.Tensor:
        """As __call__, with `retained` in the shape of the inputs, of one channel or as many as they have."""

    @abstractmethod
    def channels(self, channels: int) -> int:
        """The model's input channels, for inputs with `channels`."""

    def config(self) -> dict[str, Any]:
        """What `encodings.from_config` needs to rebuild this encoding: plain JSON values.

        These are the arguments of the class; each must be an attribute of the same name, or this be overridden.
        """
        settings = {name: _plain(getattr(self, name)) for name in signature(type(self)).parameters}
        return {"kind": ENCODINGS.name_of(type(self)), **settings}

    @classmethod
    def for_training(cls, data: Dataset, recipe: Recipe, scheme: Scheme | None = None, **settings: Any) -> Encoding:
        """The encoding for such data, with the data set's constants where it needs any."""
        return cls(**settings)

    def affine(self, channels: int) -> list[tuple[int, float, float, float]] | None:
        """Per encoded channel: (input channel, scale, shift, NULL), where encoded = scale * value + shift.

        None for an encoding that is not of this form.
        """
        return None

    def perturbed(self, differs: torch.Tensor) -> torch.Tensor:
        """Bool[rows, units]: the units with an entry that differs; `differs` has the shape of the inputs."""
        return (differs if differs.ndim == 2 else differs.any(dim=1)).flatten(1)

    def check_scheme(self, scheme: Scheme) -> None:
        """Refuses a scheme that does not fit this encoding: its certificates would be false."""
        if scheme.values != self.values:
            fitting = ENCODINGS[scheme.encoding].__name__
            fitting = (
                f"one of NULL, such as {fitting}" if scheme.values is None else f"{fitting}(values={scheme.values})"
            )
            raise InputError(f"the encoding of {scheme} must be {fitting}, got {self!r}")

    def check_inputs(self, inputs: torch.Tensor) -> None:  # noqa: B027, most encodings take any values
        """Warns of inputs that were probably meant otherwise; refuses those that it cannot show."""

    def count_units(self, inputs: torch.Tensor) -> list[int]:
        """The number of units of each input; they differ where inputs of a batch are padded to the longest."""
        return [self.units(inputs.shape[1:]).count] * len(inputs)

    def cut(self, inputs: torch.Tensor, units: int) -> torch.Tensor:
        """Inputs that all have so many units, without their padding."""
        return inputs

    def seen(self, masks: torch.Tensor) -> torch.Tensor:
        """Bool[rows, units]: the units whose values may affect the copy of each mask."""
        return masks

    def units(self, shape: Sequence[int]) -> Units:
        """The units of an input of this shape (without the batch dimension).

        Where they form an image, any m x m pixels of the input lie within m x m of them, as patch certificates require.
        """
        return Units.of(shape)


def _plain(value: Any) -> Any:
    """A setting as JSON values."""
    if isinstance(value, Encoding):
        return value.config()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def per_channel(name: str, values: Any) -> tuple[float, ...]:
    """Finite numbers, one per channel, from a number, a sequence or a tensor."""
    try:
        flat = torch.as_tensor(values, dtype=torch.float64).flatten()
    except (TypeError, ValueError, RuntimeError):
        flat = torch.empty(0)
    if not flat.numel() or not torch.isfinite(flat).all():
        raise InputError(f"{name} must be a finite number for each channel, got {values!r}")
    return tuple(flat.tolist())


def warn_of_other_range(inputs: torch.Tensor, made_for: str, any_range: bool = False) -> None:
    """Warns of images that hold whole numbers beyond 1, or any up to 255: 8-bit values that nobody divided.

    And, except where the encoding is for values of any range, of others outside [0, 1]: standardised ones.
    """
    if inputs.ndim < 4:
        return
    least, most = (float(end) for end in inputs.aminmax())
    whole = most > 1 and torch.equal(inputs, inputs.round())
    if whole or (least >= 0 and FAR_ABOVE_ONE < most <= 255):
        values = f"whole numbers up to {most:g}" if whole else f"numbers up to {most:g}"
        warnings.warn(
            f"inputs are {values}, and {made_for} values in [0, 1]; for 8-bit images pass x / 255", stacklevel=6
        )
    elif not any_range and not -MARGIN <= least <= most <= 1 + MARGIN:
        warnings.warn(
            f"inputs hold values below 0 or above 1, and {made_for} values in [0, 1]; leave normalisation to the "
            "encoding, NullChannels(mean, std), or to the model",
            stacklevel=6,
        )


def broadcast_channels(values: tuple[float, ...], name: str, inputs: torch.Tensor) -> torch.Tensor:
    """The per-channel values as a tensor that broadcasts against inputs[rows, channels, *places]."""
    if len(values) not in (1, inputs.shape[1]):
        raise InputError(f"{name} has {len(values)} values but the input has {inputs.shape[1]} channels")
    return _constant(values, inputs.dtype, inputs.device).view(1, -1, *(1,) * (inputs.ndim - 2))


@lru_cache(maxsize=64)
def _constant(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Copied to the device once, not at every use: a captured CUDA graph may not copy from the host."""
    with torch.inference_mode(False):
        return torch.tensor(values, dtype=dtype, device=device)


def repeat_channels(values: tuple[float, ...], channels: int) -> tuple[float, ...]:
    """The per-channel values, a single one repeated for all `channels`."""
    return values * channels if len(values) == 1 else values
