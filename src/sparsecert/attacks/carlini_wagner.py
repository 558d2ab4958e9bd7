"""The Carlini-Wagner L0 attack.

Carlini & Wagner, "Towards Evaluating the Robustness of Neural Networks" (IEEE S&P 2017), section VI.B.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from sparsecert.attacks.attack import Attack
from sparsecert.attacks.judge import Judge
from sparsecert.attacks.pointwise import replace_pixels, revert_pixels
from sparsecert.registry import ATTACKS, Option

STEPS = Option("--steps", int, "Gradient steps of each search.", least=1, default=100)
MORE = 24  # searches to come, about: how many is not known


@ATTACKS.register("carlini-wagner")
@dataclass(frozen=True)
class CarliniWagnerL0(Attack):
    """Runs the L2 attack on the allowed pixels; where it succeeds, removes the pixels that contributed least from the
    allowed set and repeats, until it fails.

    The L2 attack is gradient descent in tanh space; the `weight` of the margin against the size of the change grows
    fourfold, up to `raises` times, until the defender is fooled. A share `dropped` of the allowed pixels, at least one,
    is removed at a time.

    The published attack removes one pixel at a time and warm-starts each search; here every search starts from the
    image, and the last result is pruned as in the Pointwise attack.
    """

    options: ClassVar[tuple[Option, ...]] = (STEPS,)

    steps: int = 100
    rate: float = 0.05
    weight: float = 1.0
    raises: int = 6
    dropped: float = 0.2

    def run(self, judge: Judge, which: torch.Tensor, generator: torch.Generator) -> None:
        allowed = torch.ones(len(which), judge.pixels, dtype=torch.bool)
        best, found = judge.images[which], torch.zeros(len(which), dtype=torch.bool)
        going = torch.arange(len(which))
        while len(going):
            with judge.part(1, MORE):
                reached, fooled = self._small_change(judge, which[going], allowed[going])
            going, reached = going[fooled], reached[fooled]
            if not len(going):
                break
            best[going], found[going] = reached, True
            allowed[going] = self._drop_pixels(judge, reached, which[going], allowed[going])
            going = going[allowed[going].any(dim=1)]
        revert_pixels(judge, best[found], which[found], generator)

    def _small_change(
        self, judge: Judge, which: torch.Tensor, allowed: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """For each image the smallest perturbation of allowed pixels found, and whether any was."""
        result, found = judge.images[which], torch.zeros(len(which), dtype=torch.bool)
        weight = self.weight
        for _ in range(self.raises + 1):
            left = (~found).nonzero()[:, 0]
            if not len(left):
                break
            with judge.part(1, 1):
                result[left], found[left] = self._descend(judge, which[left], allowed[left], weight)
            weight *= 4
        return result, found

    def _descend(
        self, judge: Judge, which: torch.Tensor, allowed: torch.Tensor, weight: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        images = judge.images[which]
        low, high = judge.bounds
        bent = torch.atanh(((images - low) / (high - low) * 2 - 1).clamp(-0.999, 0.999)).requires_grad_()
        optimizer = torch.optim.Adam([bent], lr=self.rate)
        result, sizes = images.clone(), torch.full((len(which),), torch.inf, dtype=images.dtype)
        for _ in judge.steps(self.steps):
            moved = replace_pixels(images, low + (high - low) * (bent.tanh() + 1) / 2, allowed).clamp(low, high)
            slopes = judge.gradients(
                moved.detach(), which, lambda scores: judge.margins(scores, which).clamp(min=-0.01) * weight
            )
            size = (moved - images).square().flatten(1).sum(dim=1)
            fooled = judge.fooled(moved.detach(), which)
            better = fooled & (size.detach() < sizes)
            result[better], sizes[better] = moved.detach()[better], size.detach()[better]
            optimizer.zero_grad()
            (size.sum() + (slopes * moved).sum()).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        return result, sizes.isfinite()

    def _drop_pixels(
        self, judge: Judge, reached: torch.Tensor, which: torch.Tensor, allowed: torch.Tensor
    ) -> torch.Tensor:
        """The allowed pixels without those whose change lowers the margin least, to first order."""
        slopes = judge.margin_slopes(reached, which)
        gains = slopes * (judge.images[which] - reached)
        gains = (gains.sum(dim=1) if gains.ndim > 2 else gains).flatten(1)
        gains = torch.where(allowed, gains, torch.inf)
        count = (self.dropped * allowed.sum(dim=1)).long().clamp(min=1)
        return allowed & (gains.argsort(dim=1).argsort(dim=1) >= count[:, None])
