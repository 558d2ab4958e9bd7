"""The Jacobian-based saliency map attack, JSMA.

Papernot, McDaniel, Jha, Fredrikson, Celik & Swami, "The Limitations of Deep Learning in Adversarial Settings" (EuroS&P
2016).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sparsecert.attacks.attack import Attack
from sparsecert.attacks.judge import Judge, changed_pixels
from sparsecert.attacks.pointwise import replace_pixels
from sparsecert.attacks.saliency import best_extremes
from sparsecert.registry import ATTACKS


@ATTACKS.register("jsma")
@dataclass(frozen=True)
class JSMA(Attack):
    """Targets each other class in turn: sets the pixel with the largest saliency (the rise of the target's score times
    the fall of the sum of the others) to the bounds, until the defender is fooled or a share `most` of all pixels is
    changed. The nearest adversarial image over all classes is kept.

    As published, values move to one bound only and pixels go in pairs; here each channel moves to the bound that helps
    and pixels go one by one, which finds smaller perturbations. Where no pixel does both, the published attack gives
    up; this one takes the pixel with the largest sum of the two gains.
    """

    most: float = 0.15

    def run(self, judge: Judge, which: torch.Tensor, generator: torch.Generator) -> None:
        for shift in range(1, judge.classes):
            with judge.part(1, judge.classes - 1 - shift):
                self._towards((judge.labels[which] + shift) % judge.classes, judge, which)

    def _towards(self, target: torch.Tensor, judge: Judge, which: torch.Tensor) -> None:
        images = judge.images[which]
        current, done = images.clone(), torch.zeros(len(which), dtype=torch.bool)
        most = max(1, int(self.most * judge.pixels))
        for _ in judge.steps(most if judge.budget is None else min(most, judge.budget)):
            left = (~done).nonzero()[:, 0]
            if not len(left):
                break
            free = ~changed_pixels(current[left], images[left])
            ends, merit = self._merit(judge, current[left], which[left], target[left], free)
            best = torch.zeros_like(merit, dtype=torch.bool)
            best[torch.arange(len(left)), merit.argmax(dim=1)] = True
            current[left] = replace_pixels(current[left], ends, best)
            done[left] = judge.fooled(current[left], which[left])

    @staticmethod
    def _merit(
        judge: Judge, current: torch.Tensor, which: torch.Tensor, target: torch.Tensor, free: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The bounds each pixel would move to, and its saliency: the product where some pixel both raises the target
        and lowers the others, else the sum of the gains; -inf for pixels that are not free.
        """
        own = judge.gradients(current, which, lambda scores: -scores.gather(1, target[:, None])[:, 0])
        others = judge.gradients(
            current, which, lambda scores: scores.sum(dim=1) - scores.gather(1, target[:, None])[:, 0]
        )
        ends, raised = best_extremes(own + others, current, judge.bounds)
        moved = (ends - current).unsqueeze(1) if current.ndim == 2 else ends - current
        rise, fall = ((-slope.view_as(moved) * moved).sum(dim=1).flatten(1) for slope in (own, others))
        both = free & (rise > 0) & (fall > 0)
        merit = torch.where(both.any(dim=1, keepdim=True), torch.where(both, rise * fall, -torch.inf), raised)
        return ends, torch.where(free, merit, -torch.inf)
