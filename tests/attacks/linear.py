"""Linear classifiers, whose smallest change is known in closed form."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Linear:
    """Class 1 where the weighted sum of all values is positive, else class 0."""

    weights: torch.Tensor  # [channels, height, width]
    bias: float

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """Half the weighted sum for class 1 and against class 0: the lead of either is the sum or its negative."""
        sums = self.sums(images)
        return torch.stack((-sums / 2, sums / 2), dim=1)

    def sums(self, images: torch.Tensor) -> torch.Tensor:
        """float[b]: the weighted sums with the bias."""
        return (images * self.weights).flatten(1).sum(dim=1) + self.bias

    def least(self, images: torch.Tensor) -> torch.Tensor:
        """int64[b]: the fewest pixels, each set to any values in [0, 1], that change the answer; -1 if none do.

        Pixels act independently, so the best set is that of the pixels which can move the sum furthest.
        """
        sums = self.sums(images)
        down = (self.weights * images - self.weights.clamp(max=0)).sum(dim=1).flatten(1)
        up = (self.weights.clamp(min=0) - self.weights * images).sum(dim=1).flatten(1)
        gains = torch.where((sums > 0)[:, None], down, up).sort(dim=1, descending=True).values.cumsum(dim=1)
        enough = torch.where((sums > 0)[:, None], gains >= sums.abs()[:, None], gains > sums.abs()[:, None])
        return torch.where(enough.any(dim=1), enough.long().argmax(dim=1) + 1, -1)


def made(
    seed: int = 0, images: int = 40, channels: int = 1, size: int = 12, margin: float = 7.0
) -> tuple[Linear, torch.Tensor, torch.Tensor]:
    """A classifier, images of both its classes, most of them about `margin` away from the other, and their labels."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.rand(images, channels, size, size, generator=generator)
    weights = torch.randn(channels, size, size, generator=generator)
    model = Linear(weights, -float((weights / 2).sum()))
    towards = margin * weights / weights.square().sum()
    inputs = (inputs + torch.where(model.sums(inputs) > 0, 1.0, -1.0)[:, None, None, None] * towards).clamp(0, 1)
    return model, inputs, model(inputs).argmax(dim=1)
