"""Uniform random noise: the baseline that every attack must beat.

On its distance from the smallest perturbation: Fawzi, Moosavi-Dezfooli & Frossard, "Robustness of classifiers: from
adversarial to random noise" (NeurIPS 2016).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from sparsecert.attacks.attack import RESTARTS, Attack
from sparsecert.attacks.judge import Judge
from sparsecert.attacks.pointwise import replace_pixels
from sparsecert.registry import ATTACKS, Option


@ATTACKS.register("noise")
@dataclass(frozen=True)
class UniformNoise(Attack):
    """Sets more and more random pixels to uniformly random values within the bounds, `restarts` times.

    The number of pixels grows by a factor of about 1.2, from 1 to all.
    """

    options: ClassVar[tuple[Option, ...]] = (RESTARTS,)

    restarts: int = 10

    def run(self, judge: Judge, which: torch.Tensor, generator: torch.Generator) -> None:
        which = which.repeat(self.restarts)
        images = judge.images[which]
        low, high = judge.bounds
        noise = (low + (high - low) * torch.rand(images.shape, generator=generator)).to(images).clamp(low, high)
        turn = torch.rand(len(which), judge.pixels, generator=generator).argsort(dim=1).argsort(dim=1)
        left = torch.arange(len(which))
        counts = _counts(judge.pixels)
        for step in judge.steps(len(counts)):
            attempts = replace_pixels(images[left], noise[left], turn[left] < counts[step])
            left = left[~judge.fooled(attempts, which[left], left, accept_all=True)]
            if not len(left):
                break


def _counts(pixels: int) -> list[int]:
    counts = [1]
    while counts[-1] < pixels:
        counts.append(min(pixels, max(counts[-1] + 1, round(1.2 * counts[-1]))))
    return counts
