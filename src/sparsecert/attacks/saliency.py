"""Greedy saliency: the pixel that promises most is changed, again and again, until the defender is fooled.

One pixel at a time by its gradient, as Papernot and others, "The Limitations of Deep Learning in Adversarial Settings"
(EuroS&P 2016), but along the lead over all classes. That a smoothed classifier is attacked by the gradient of its mean
probabilities is from Salman and others, "Provably Robust Deep Learning via Adversarially Trained Smoothed Classifiers"
(NeurIPS 2019).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sparsecert.attacks.attack import Attack
from sparsecert.attacks.defenders import lead_of
from sparsecert.attacks.judge import Judge, changed
from sparsecert.attacks.pointwise import mixed, take_back
from sparsecert.registry import ATTACKS


@ATTACKS.register("saliency")
@dataclass(frozen=True)
class Saliency(Attack):
    """Sets the pixel to the bounds, each channel to its own, for which the gradient of the lead promises the largest
    fall, `at_once` pixels a step, up to `most` of all pixels; then takes back what was not needed.

    On a linear classifier, one pixel at a time, it finds the smallest change there is. It asks for gradients, which a
    smoothed classifier gives by averaging over masks.
    """

    most: float = 0.5
    at_once: int = 1

    def run(self, judge: Judge, which: torch.Tensor, generator: torch.Generator) -> None:
        images = judge.images[which]
        current, done = images.clone(), torch.zeros(len(which), dtype=torch.bool)
        for _ in range(0, max(1, int(self.most * judge.pixels)), self.at_once):
            left = (~done).nonzero()[:, 0]
            if not len(left):
                break
            slopes = judge.gradients(current[left], which[left], lead_of(judge.labels[which[left]]))
            ends, falls = promised(slopes, current[left], judge.bounds)
            falls[changed(current[left], images[left])] = -torch.inf
            best = torch.zeros_like(falls, dtype=torch.bool)
            best.scatter_(1, falls.topk(min(self.at_once, judge.pixels), dim=1).indices, True)
            current[left] = mixed(current[left], ends, best)
            done[left] = judge.fooled(current[left], which[left], left, onward=True)
        take_back(judge, current[done], which[done], generator, done.nonzero()[:, 0])


def promised(
    slopes: torch.Tensor, images: torch.Tensor, bounds: tuple[float, float]
) -> tuple[torch.Tensor, torch.Tensor]:
    """To which bound each value should go for a function with these slopes to fall, and by how much each pixel then
    lets it fall, to first order: the images so changed everywhere, and float[b, pixels].
    """
    low, high = (torch.tensor(bound, dtype=images.dtype) for bound in bounds)
    ends = torch.where(slopes > 0, low, high)
    falls = slopes * (images - ends)
    return ends, (falls.sum(dim=1) if falls.ndim > 2 else falls).flatten(1)
