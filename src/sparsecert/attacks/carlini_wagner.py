"""The Carlini-Wagner attack on the number of changed pixels.

Carlini & Wagner, "Towards Evaluating the Robustness of Neural Networks" (IEEE S&P 2017), section VI.B.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from sparsecert.attacks.attack import Attack
from sparsecert.attacks.defenders import lead_of, leads
from sparsecert.attacks.judge import Judge
from sparsecert.attacks.pointwise import mixed, take_back
from sparsecert.registry import ATTACKS, Option

NOT_FINITE = (
    "the gradients of the model's scores are not finite near the image; use an attack that asks for answers alone"
)
STEPS = Option("--steps", int, "Gradient steps of each search for a small change.", least=1, default=100)


@ATTACKS.register("carlini-wagner")
@dataclass(frozen=True)
class CarliniWagnerL0(Attack):
    """Looks for a small change in the sense of squares among the pixels that are still allowed; where there is one,
    forbids the pixels that did least for it, and begins again, until none is found.

    Changes are minimised by gradients over values bent to stay within the bounds; the `weight` of the lead against the
    size of the change grows fourfold, up to `raises` times, where nothing fools the defender. `dropped` of the allowed
    pixels are forbidden at a time, at least one.

    The published attack forbids one at a time, begins each search from what the last one found, and ends there; here
    every search begins from the image, and of the last finding pixels are set back as in the Pointwise attack.
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
            reached, fooled = self._small_change(judge, which[going], allowed[going])
            going, reached = going[fooled], reached[fooled]
            if not len(going):
                break
            best[going], found[going] = reached, True
            allowed[going] = self._fewer(judge, reached, which[going], allowed[going])
            going = going[allowed[going].any(dim=1)]
        take_back(judge, best[found], which[found], generator)

    def _small_change(
        self, judge: Judge, which: torch.Tensor, allowed: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """For each image the smallest change of allowed pixels that was found, and whether any was."""
        result, found = judge.images[which], torch.zeros(len(which), dtype=torch.bool)
        weight = self.weight
        for _ in range(self.raises + 1):
            left = (~found).nonzero()[:, 0]
            if not len(left):
                break
            result[left], found[left] = self._descended(judge, which[left], allowed[left], weight)
            weight *= 4
        return result, found

    def _descended(
        self, judge: Judge, which: torch.Tensor, allowed: torch.Tensor, weight: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        images, labels = judge.images[which], judge.labels[which]
        low, high = judge.bounds
        bent = torch.atanh(((images - low) / (high - low) * 2 - 1).clamp(-0.999, 0.999)).requires_grad_()
        optimizer = torch.optim.Adam([bent], lr=self.rate)
        result, sizes = images.clone(), torch.full((len(which),), torch.inf, dtype=images.dtype)
        for _ in range(self.steps):
            moved = mixed(images, low + (high - low) * (bent.tanh() + 1) / 2, allowed).clamp(low, high)
            slopes = judge.gradients(
                moved.detach(), which, lambda scores: leads(scores, labels).clamp(min=-0.01) * weight
            )
            if not slopes.isfinite().all():
                raise ValueError(NOT_FINITE)
            size = (moved - images).square().flatten(1).sum(dim=1)
            fooled = judge.fooled(moved.detach(), which)
            better = fooled & (size.detach() < sizes)
            result[better], sizes[better] = moved.detach()[better], size.detach()[better]
            optimizer.zero_grad()
            (size.sum() + (slopes * moved).sum()).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        return result, sizes.isfinite()

    def _fewer(self, judge: Judge, reached: torch.Tensor, which: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
        """The allowed pixels without those whose change brings the lead down least, to first order."""
        slopes = judge.gradients(reached, which, lead_of(judge.labels[which]))
        gains = slopes * (judge.images[which] - reached)
        gains = (gains.sum(dim=1) if gains.ndim > 2 else gains).flatten(1)
        gains = torch.where(allowed, gains, torch.inf)
        count = (self.dropped * allowed.sum(dim=1)).long().clamp(min=1)
        return allowed & (gains.argsort(dim=1).argsort(dim=1) >= count[:, None])
