"""The Jacobian-based saliency map attack, JSMA.

Papernot, McDaniel, Jha, Fredrikson, Celik & Swami, "The Limitations of Deep Learning in Adversarial Settings" (EuroS&P
2016).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sparsecert.attacks.attack import Attack
from sparsecert.attacks.judge import Judge, changed
from sparsecert.attacks.pointwise import mixed
from sparsecert.attacks.saliency import promised
from sparsecert.registry import ATTACKS


@ATTACKS.register("jsma")
@dataclass(frozen=True)
class JSMA(Attack):
    """Towards each other class in turn, sets the pixel to the bounds that raises that class's score and lowers the sum
    of all others by the largest product of the two, until the defender is fooled or `most` of all pixels are changed.

    As published, values move to one end only and pixels go in pairs; here each channel goes to the end that helps and
    pixels go one by one, which finds smaller changes. Where no pixel does both, the published attack gives up; this one
    takes the pixel that gains most in the two together. The nearest over all classes is kept.
    """

    most: float = 0.15

    def run(self, judge: Judge, which: torch.Tensor, generator: torch.Generator) -> None:
        for shift in range(1, judge.classes):
            self._towards((judge.labels[which] + shift) % judge.classes, judge, which)

    def _towards(self, target: torch.Tensor, judge: Judge, which: torch.Tensor) -> None:
        images = judge.images[which]
        current, done = images.clone(), torch.zeros(len(which), dtype=torch.bool)
        most = max(1, int(self.most * judge.pixels))
        for _ in range(most if judge.budget is None else min(most, judge.budget)):
            left = (~done).nonzero()[:, 0]
            if not len(left):
                break
            free = ~changed(current[left], images[left])
            ends, merit = self._merit(judge, current[left], which[left], target[left], free)
            best = torch.zeros_like(merit, dtype=torch.bool)
            best[torch.arange(len(left)), merit.argmax(dim=1)] = True
            current[left] = mixed(current[left], ends, best)
            done[left] = judge.fooled(current[left], which[left])

    @staticmethod
    def _merit(
        judge: Judge, current: torch.Tensor, which: torch.Tensor, target: torch.Tensor, free: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Where each pixel would go, and its saliency: the product where one raises the target and lowers the others,
        else what it gains in both together. Pixels that are not free have none.
        """
        own = judge.gradients(current, which, lambda scores: -scores.gather(1, target[:, None])[:, 0])
        others = judge.gradients(
            current, which, lambda scores: scores.sum(dim=1) - scores.gather(1, target[:, None])[:, 0]
        )
        ends, raised = promised(own + others, current, judge.bounds)
        moved = (ends - current).unsqueeze(1) if current.ndim == 2 else ends - current
        rise, fall = ((-slope.view_as(moved) * moved).sum(dim=1).flatten(1) for slope in (own, others))
        both = free & (rise > 0) & (fall > 0)
        merit = torch.where(both.any(dim=1, keepdim=True), torch.where(both, rise * fall, -torch.inf), raised)
        return ends, torch.where(free, merit, -torch.inf)
