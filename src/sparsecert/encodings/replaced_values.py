"""The encoding of random values: a unit shows its own value or a random other one."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import torch

from sparsecert.encodings.encoding import Encoding, warn_of_other_range
from sparsecert.errors import check_int
from sparsecert.inputs.units import Units
from sparsecert.registry import ENCODINGS
from sparsecert.schemes.random_values import MOST_VALUES

if TYPE_CHECKING:
    from sparsecert.datasets import Dataset
    from sparsecert.schemes import Scheme
    from sparsecert.training.recipe import Recipe


@ENCODINGS.register("replaced-values")
class ReplacedValues(Encoding):
    """Each entry of the input is a unit and has one of `values` values, 0, 1 / (values - 1), ..., 1: the nearest one.

    Masks are those of `RandomValues`: 0 shows the value itself; j shows the j-th of the others, in rising order. As j
    is uniform on 1, ..., values - 1, every other value is equally likely.

    Guarantee: what a copy shows of a unit depends on that unit and its entry of the mask alone. So copies of x follow
    the distribution that `RandomValues` assumes, of x rounded to the values. Rounding (half to even; below 0 and above
    1 to the nearest value) acts on each unit by itself: inputs that differ in rho units differ in at most rho rounded
    ones, and a certificate holds for every such x', whatever its values. 8-bit images have exactly the values of
    `values=256`.

    Gradients flow through the kept units alone, as if these were not rounded.
    """

    def __init__(self, values: int = 256) -> None:
        self.values: int = check_int("values", values, 2, MOST_VALUES, "2**16")

    @classmethod
    def for_training(
        cls, data: Dataset, recipe: Recipe, scheme: Scheme | None = None, **settings: Any
    ) -> ReplacedValues:
        """With as many values as the scheme has."""
        values = None if scheme is None else scheme.values
        return cls(**settings) if values is None else cls(values, **settings)

    def __call__(self, inputs: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
        """What is shown; `masks` is Int[rows, units], or Int[1, units] for one mask for all."""
        inputs = inputs if inputs.ndim > 2 else inputs[:, None]
        return self.encode(inputs, masks.view(len(masks), *inputs.shape[1:]))

    def encode(self, inputs: torch.Tensor, retained: torch.Tensor) -> torch.Tensor:
        """Float[rows, channels, *places]; `retained` is the mask in the shape of the inputs."""
        most = self.values - 1
        own = (inputs.detach().float() * most).round_().clamp_(0, most)
        other = (retained - 1).to(own.dtype)
        divisor = torch.full(
            (), float(most), device=own.device
        )  # a GPU divides by a Python number as a product with its reciprocal
        shown = torch.where(retained == 0, own, other + (other >= own)) / divisor
        shown = shown.to(inputs.dtype)
        return shown + torch.where(retained == 0, inputs - inputs.detach(), 0) if inputs.requires_grad else shown

    def seen(self, masks: torch.Tensor) -> torch.Tensor:
        """All: even a replaced unit reveals a value that is not its own."""
        return torch.ones_like(masks, dtype=torch.bool)

    def perturbed(self, differs: torch.Tensor) -> torch.Tensor:
        """Bool[rows, units]: each entry is a unit."""
        return differs.flatten(1)

    def units(self, shape: Sequence[int]) -> Units:
        """Each entry is a unit: a pixel of a grey image only."""
        return Units("units", prod(shape)) if len(shape) > 1 and shape[0] > 1 else super().units(shape)

    def channels(self, channels: int) -> int:
        return channels

    def check_inputs(self, inputs: torch.Tensor) -> None:
        """All that is below 0 or above 1 is rounded to it; certificates hold all the same."""
        warn_of_other_range(inputs, "ReplacedValues is made for")

    def __repr__(self) -> str:
        return f"ReplacedValues(values={self.values})"
