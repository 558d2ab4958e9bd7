"""Greedy saliency: changes the most salient pixel, repeatedly, until the defender is fooled.

One pixel at a time by its gradient, as Papernot et al., "The Limitations of Deep Learning in Adversarial Settings"
(EuroS&P 2016), but of the margin over all classes. Attacking a smoothed classifier by the gradient of its mean
probabilities is from Salman et al., "Provably Robust Deep Learning via Adversarially Trained Smoothed Classifiers"
(NeurIPS 2019).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sparsecert.attacks.attack import Attack
from sparsecert.attacks.judge import Judge, changed_pixels
from sparsecert.attacks.pointwise import replace_pixels, revert_pixels
from sparsecert.registry import ATTACKS

HALF = 0.05  # the share of pixels at which half of the time is over, about


@ATTACKS.register("saliency")
@dataclass(frozen=True)
class Saliency(Attack):
    """Sets the pixels whose change lowers the margin most, to first order, to the bounds, each channel to its own:
    `at_once` pixels a step, up to a share `most` of all pixels; then reverts those that were not needed.

    On a linear classifier, one pixel at a time, it finds the smallest perturbation. It needs gradients; a smoothed
    classifier's are averaged over masks.
    """

    most: float = 0.5
    at_once: int = 1

    def run(self, judge: Judge, which: torch.Tensor, generator: torch.Generator) -> None:
        images = judge.images[which]
        current, done = images.clone(), torch.zeros(len(which), dtype=torch.bool)
        for count in range(0, max(1, int(self.most * judge.pixels)), self.at_once):
            judge.did(1 - 0.5 ** (count / (HALF * judge.pixels)))
            left = (~done).nonzero()[:, 0]
            if not len(left):
                break
            slopes = judge.margin_slopes(current[left], which[left])
            ends, falls = best_extremes(slopes, current[left], judge.bounds)
            falls[changed_pixels(current[left], images[left])] = -torch.inf
            best = torch.zeros_like(falls, dtype=torch.bool)
            best.scatter_(1, falls.topk(min(self.at_once, judge.pixels), dim=1).indices, True)
            current[left] = replace_pixels(current[left], ends, best)
            done[left] = judge.fooled(current[left], which[left], left, accept_all=True)
        revert_pixels(judge, current[done], which[done], generator, done.nonzero()[:, 0])


def best_extremes(
    slopes: torch.Tensor, images: torch.Tensor, bounds: tuple[float, float]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The images with every value at the bound that lowers a function with these slopes, and float[b, pixels]: by how
    much each pixel lowers it, to first order.
    """
    low, high = (torch.tensor(bound, dtype=images.dtype) for bound in bounds)
    ends = torch.where(slopes > 0, low, high)
    falls = slopes * (images - ends)
    return ends, (falls.sum(dim=1) if falls.ndim > 2 else falls).flatten(1)
