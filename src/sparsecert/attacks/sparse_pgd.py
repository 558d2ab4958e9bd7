"""Sparse-PGD: projected gradient descent on which pixels to change and on their values, each by itself.

Zhong, Huang & Liu, "Towards Efficient Training and Evaluation of Robust Models against l0 Bounded Adversarial
Perturbations" (ICML 2024).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from sparsecert.attacks.attack import Attack
from sparsecert.attacks.carlini_wagner import STEPS
from sparsecert.attacks.judge import Judge, changed_pixels
from sparsecert.attacks.pointwise import by_pixel, over_channels, replace_pixels, revert_found
from sparsecert.registry import ATTACKS, Option

PROJECTED = Option("--projected", bool, "Move the values of the changed pixels only, not of all by their weights.")
STEP = 5  # queries in the time of a step, about


@ATTACKS.register("sparse-pgd")
@dataclass(frozen=True)
class SparsePGD(Attack):
    """A change is p times m: p are values for all pixels, m marks the k pixels with the largest weights.

    Each step moves every entry of p by `values_rate` of the range, against the sign of the margin's gradient, and the
    weights by `weights_rate` times the root of their number along their normalised gradient, which treats m as the
    sigmoid of the weights. So does the gradient of p, by default; `projected`, it moves the marked pixels only. Where
    these stay the same for `patience` steps without success, the weights are drawn anew.

    The published attack is for a given k and stops on success. To minimise it, k begins at the budget, or without one
    at a share `start` of the pixels, and falls by a tenth of what each success changed. The loss is the margin at every
    step; the published attack uses it near the boundary and cross-entropy elsewhere. What was found is pruned
    at the end, as in the Pointwise attack.
    """

    options: ClassVar[tuple[Option, ...]] = (replace(STEPS, default=300), PROJECTED)

    steps: int = 300
    projected: bool = False
    values_rate: float = 0.25
    weights_rate: float = 0.25
    patience: int = 3
    start: float = 0.3

    def run(self, judge: Judge, which: torch.Tensor, generator: torch.Generator) -> None:
        most = judge.most[which]
        if judge.budget is None:
            most = most.clamp(max=math.ceil(self.start * judge.pixels))
        state = _MaskedValues(judge, which, most, generator)
        for _ in judge.steps(self.steps):
            live = (state.most > 0).nonzero()[:, 0]
            if not len(live):
                break
            self._step(judge, state, live)
        revert_found(judge, which, generator)

    def _step(self, judge: Judge, state: _MaskedValues, live: torch.Tensor) -> None:
        """One attempt for each of the searches `live`, and a gradient step where it fails."""
        marked, attempts = state.attempts(live)
        fooled = judge.fooled(attempts, state.which[live], live, accept_all=True)
        state.lower(live[fooled], changed_pixels(attempts[fooled], state.images[live[fooled]]).sum(dim=1))
        left, marked, attempts = live[~fooled], marked[~fooled], attempts[~fooled]
        if not len(left):
            return
        slopes = judge.margin_slopes(attempts, state.which[left])
        shares = torch.sigmoid(state.weights[left])
        towards = (by_pixel(slopes) * by_pixel(state.values[left])).sum(dim=1) * shares * (1 - shares)
        lengths = towards.norm(dim=1, keepdim=True).clamp(min=1e-12)
        through = slopes * over_channels(marked.to(slopes.dtype) if self.projected else shares, slopes)
        state.move(left, -through.sign() * self.values_rate)
        state.weights[left] -= self.weights_rate * math.sqrt(judge.pixels) * towards / lengths
        state.redraw(left, marked, self.patience)


class _MaskedValues:
    """The state of all images' searches: values and weights of their pixels, and how many may be changed."""

    def __init__(self, judge: Judge, which: torch.Tensor, most: torch.Tensor, generator: torch.Generator) -> None:
        self.which, self.most, self.generator = which, most.clone(), generator
        self.images, self.bounds = judge.images[which], judge.bounds
        low, high = judge.bounds
        drawn = 2 * torch.rand(self.images.shape, generator=generator).to(self.images) - 1
        self.values = (self.images + (high - low) * drawn).clamp(low, high) - self.images
        self.weights = torch.randn(len(which), judge.pixels, generator=generator).to(self.images)
        self.unchanged = torch.zeros(len(which), dtype=torch.int64)

    def attempts(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Bool[m, pixels]: the marked pixels; and the images changed there."""
        marked = self.marked(rows)
        low, high = self.bounds
        moved = (self.images[rows] + self.values[rows]).clamp(low, high)
        return marked, replace_pixels(self.images[rows], moved, marked)

    def marked(self, rows: torch.Tensor) -> torch.Tensor:
        """Bool[m, pixels]: of each image the pixels with the largest weights, as many as it may change."""
        ranks = self.weights[rows].argsort(dim=1, descending=True, stable=True).argsort(dim=1)
        return ranks < self.most[rows, None]

    def move(self, rows: torch.Tensor, steps: torch.Tensor) -> None:
        """Adds steps, as shares of the range, to the values; what they lead to stays within the bounds."""
        low, high = self.bounds
        images = self.images[rows]
        self.values[rows] = (images + self.values[rows] + (high - low) * steps).clamp(low, high) - images

    def lower(self, rows: torch.Tensor, changed: torch.Tensor) -> None:
        """Allows a tenth fewer pixels than a success changed, at least one fewer."""
        self.most[rows] = changed - (changed // 10).clamp(min=1)

    def redraw(self, rows: torch.Tensor, before: torch.Tensor, patience: int) -> None:
        """Draws new weights where the marked pixels have stayed as they were for so many steps."""
        same = (self.marked(rows) == before).all(dim=1)
        self.unchanged[rows] = torch.where(same, self.unchanged[rows] + 1, 0)
        stuck = rows[self.unchanged[rows] >= patience]
        drawn = torch.randn(len(stuck), self.weights.shape[1], generator=self.generator)
        self.weights[stuck] = drawn.to(self.weights)
        self.unchanged[stuck] = 0
