"""Sigma-zero: gradient descent on a differentiable approximation of the number of changed pixels.

Cinà, Villani, Pintor, Schönherr, Biggio & Pelillo, "sigma-zero: Gradient-based Optimization of l0-norm Adversarial
Examples" (ICLR 2025).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from sparsecert.attacks.attack import Attack
from sparsecert.attacks.carlini_wagner import STEPS
from sparsecert.attacks.judge import Judge
from sparsecert.attacks.pointwise import by_pixel, over_channels, replace_pixels, revert_found
from sparsecert.registry import ATTACKS, Option

LAST_RATE = 0.1  # the rate falls to this share of its start


@ATTACKS.register("sigma-zero")
@dataclass(frozen=True)
class SigmaZero(Attack):
    """Adam on the margin, while the defender is not fooled, plus the mean over all pixels of s / (s + sigma). Here s is
    the squared change of a pixel, so that the term is about 1 for a changed pixel and 0 for any other.

    Changes are shares of the range of values. Each gradient is divided by its largest entry, and the `rate` falls by a
    cosine to a tenth. After each step, pixels that changed by less than a threshold in every channel are reverted. The
    threshold of an image begins at `threshold`, rises by `growth` times the rate when the defender is fooled, and falls
    by as much when it is not.

    The published attack counts every channel (flatten images to [b, features] for that); here all channels of a pixel
    are one. What was found is pruned at the end, as in the Pointwise attack. For a smoothed classifier, whose votes
    have no gradient, the margin is that of its mean probabilities, and the votes decide whether it is fooled.
    """

    options: ClassVar[tuple[Option, ...]] = (replace(STEPS, default=1_000),)

    steps: int = 1_000
    rate: float = 1.0
    sigma: float = 1e-3
    threshold: float = 0.3
    growth: float = 0.01

    def run(self, judge: Judge, which: torch.Tensor, generator: torch.Generator) -> None:
        images, slots = judge.images[which], torch.arange(len(which))
        low, high = judge.bounds
        change = torch.zeros_like(images).requires_grad_()
        thresholds = torch.full((len(which),), self.threshold, dtype=images.dtype)
        adam = torch.optim.Adam([change], lr=self.rate)
        attempts = images
        for step in judge.steps(self.steps):
            fooled = judge.fooled(attempts, which, slots, accept_all=True)
            slopes = self._sparsity_slopes(change.detach())
            left = (~fooled).nonzero()[:, 0]
            if len(left):
                slopes[left] += judge.margin_slopes(attempts[left], which[left]) * (high - low)
            largest = slopes.flatten(1).abs().amax(dim=1).clamp(min=1e-12)
            change.grad = slopes / largest.view(-1, *[1] * (slopes.ndim - 1))
            adam.param_groups[0]["lr"] = self._rate(step)
            adam.step()
            thresholds += torch.where(fooled, 1.0, -1.0) * self.growth * self._rate(step + 1)
            thresholds.clamp_(0, 1)
            with torch.no_grad():
                moved = (images + (high - low) * change).clamp(low, high)
                kept = by_pixel(moved - images).abs().amax(dim=1) >= thresholds[:, None] * (high - low)
                attempts = replace_pixels(images, moved, kept)
                change.copy_((attempts - images) / (high - low))
        judge.fooled(attempts, which, slots, accept_all=True)
        revert_found(judge, which, generator)

    def _rate(self, step: int) -> float:
        """The rate of a step, from `rate` to a tenth of it."""
        share = LAST_RATE + (1 - LAST_RATE) * (1 + math.cos(math.pi * step / self.steps)) / 2
        return self.rate * share

    def _sparsity_slopes(self, change: torch.Tensor) -> torch.Tensor:
        """The gradient of the mean of s / (s + sigma): 2 c sigma / (s + sigma)^2 for a change c of a channel."""
        sizes = by_pixel(change).square().sum(dim=1)
        factors = 2 * self.sigma / (sizes + self.sigma).square() / sizes.shape[1]
        return change * over_channels(factors, change)
