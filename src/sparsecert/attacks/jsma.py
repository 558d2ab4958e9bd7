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


@dataclass(frozen=True)
class JSMA(Attack):
    """Towards each other class in turn, sets the pixel to the bounds that raises that class's score and lowers the sum
    of all others by the largest product of the two, until the defender is fooled or `most` of all pixels are changed.

    As published, values move to one end only and pixels go in pairs; here each channel goes to the end that helps and
    pixels go one by one, which finds smaller changes. The nearest over all classes is kept.
    """

    most: float = 0.15

    def run(self, judge: Judge, which: torch.Tensor, generator: torch.Generator) -> None:
        """See the class."""
        classes = judge.defender.answers(judge.images[which[:1]]).scores.shape[1]
        for shift in range(1, classes):
            self._towards((judge.labels[which] + shift) % classes, judge, which)

    def _towards(self, target: torch.Tensor, judge: Judge, which: torch.Tensor) -> None:
        images = judge.images[which]
        current, done = images.clone(), torch.zeros(len(which), dtype=torch.bool)
        for _ in range(max(1, int(self.most * judge.pixels))):
            left = (~done).nonzero()[:, 0]
            if not len(left):
                break
            ends, merit = self._merit(judge, current[left], which[left], target[left])
            merit[changed(current[left], images[left])] = -torch.inf
            best = torch.zeros_like(merit, dtype=torch.bool)
            best[torch.arange(len(left)), merit.argmax(dim=1)] = True
            current[left] = mixed(current[left], ends, best)
            done[left] = judge.fooled(current[left], which[left])

    @staticmethod
    def _merit(
        judge: Judge, current: torch.Tensor, which: torch.Tensor, target: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Where each pixel would go, and its saliency: the product where one raises the target and lowers the others,
        else what it gains in both together.
        """
        own = judge.gradients(current, which, lambda scores: -scores.gather(1, target[:, None])[:, 0])
        others = judge.gradients(
            current, which, lambda scores: scores.sum(dim=1) - scores.gather(1, target[:, None])[:, 0]
        )
        ends, raised = promised(own + others, current, judge.bounds)
        moved = (ends - current).unsqueeze(1) if current.ndim == 2 else ends - current
        rise, fall = ((-slope.view_as(moved) * moved).sum(dim=1).flatten(1) for slope in (own, others))
        both = (rise > 0) & (fall > 0)
        return ends, torch.where(both.any(dim=1, keepdim=True), torch.where(both, rise * fall, -torch.inf), raised)
