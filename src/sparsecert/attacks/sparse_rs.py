"""Sparse-RS: random search over which pixels to change, and to which values.

Croce, Andriushchenko, Singh, Flammarion & Hein, "Sparse-RS: a Versatile Framework for Query-Efficient Sparse Black-Box
Adversarial Attacks" (AAAI 2022).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from sparsecert.attacks.attack import Attack
from sparsecert.attacks.judge import NOT_FOUND, Judge, changed_pixels
from sparsecert.attacks.pointwise import random_extremes, replace_pixels, revert_pixels, salt_and_pepper
from sparsecert.registry import ATTACKS, Option

STAGES = ((0.0, 1.0), (0.005, 0.5), (0.02, 0.25), (0.1, 0.1), (0.25, 0.05), (0.5, 0.03), (0.8, 0.01))
QUERIES = Option("--queries", int, "Queries per image after the start.", "steps", least=1, default=1_000)
NOISE, REVERTING = 100, 150  # the time of the start, in steps, about


@ATTACKS.register("sparse-rs")
@dataclass(frozen=True)
class SparseRS(Attack):
    """Keeps a set of pixels per image, at random bounds, and swaps some of them for others wherever that lowers the
    margin; the share swapped decreases as the search proceeds.

    The published attack is for a given number of pixels and stops on success. To minimise it, this one starts from
    salt-and-pepper noise reverted as in the Pointwise attack, and after each success drops a random pixel. The schedule
    of shares is this package's. At most `steps` queries per image after the start. In an ensemble it starts from what
    was found before.
    """

    options: ClassVar[tuple[Option, ...]] = (QUERIES,)

    steps: int = 1_000
    start: float = 0.3

    def run(self, judge: Judge, which: torch.Tensor, generator: torch.Generator) -> None:
        known = judge.distances[which] != NOT_FOUND  # by another attack, before
        starts, found = judge.best[which], known.clone()
        if not known.all():
            with judge.part(NOISE, REVERTING + self.steps):
                starts[~known], found[~known] = salt_and_pepper(judge, which[~known], generator)
        which = which[found]
        if not len(which):
            return
        current = starts[found]
        slots = found.nonzero()[:, 0]
        with judge.part(REVERTING, self.steps):
            revert_pixels(judge, current, which, generator, slots)
        search = _Search(judge, which, current, generator, slots)
        for step in judge.steps(self.steps):
            search.step(self._share(step))

    def _share(self, step: int) -> float:
        """The share of pixels swapped in a step."""
        return self.start * [factor for begin, factor in STAGES if begin <= step / self.steps][-1]


class _Search:
    """The state of all images' searches: each image's set of pixels, their values, and the margin reached."""

    def __init__(
        self,
        judge: Judge,
        which: torch.Tensor,
        current: torch.Tensor,
        generator: torch.Generator,
        slots: torch.Tensor,
    ) -> None:
        self.judge, self.which, self.generator, self.slots = judge, which, generator, slots
        self.images, self.current = judge.images[which], current
        self.margins = torch.full((len(which),), torch.inf)
        self.chosen = changed_pixels(self.current, self.images)
        self._drop(torch.ones(len(which), dtype=torch.bool))

    def step(self, share: float) -> None:
        """One attempt for each image whose set is not empty."""
        sizes = self.chosen.sum(dim=1)
        swapped = (share * sizes).ceil().long().clamp(min=1)
        swapped = torch.minimum(swapped, self.chosen.shape[1] - sizes)
        out = self._random_of(self.chosen, swapped)
        into = self._random_of(~self.chosen, swapped)
        chosen = self.chosen & ~out | into
        attempts = replace_pixels(
            replace_pixels(self.current, self.images, out),
            random_extremes(self.judge, self.images, self.generator),
            into,
        )
        live = (sizes > 0).nonzero()[:, 0]
        if not len(live):
            return
        fooled, answers = self.judge.query(attempts[live], self.which[live], self.slots[live])
        left = self.judge.margins(answers.scores, self.which[live])
        lower = left <= self.margins[live]
        self.judge.defender.accept(lower.nonzero()[:, 0])
        better = live[lower]
        self.current[better], self.chosen[better] = attempts[better], chosen[better]
        self.margins[live] = torch.minimum(left, self.margins[live])
        won = torch.zeros(len(self.which), dtype=torch.bool)
        won[live[fooled]] = True
        self.current[won], self.chosen[won] = attempts[won], changed_pixels(attempts[won], self.images[won])
        self._drop(won)

    def _drop(self, won: torch.Tensor) -> None:
        """Drops one pixel where a set succeeded, or as many as the budget requires."""
        sizes = self.chosen.sum(dim=1)
        left = sizes - 1 if self.judge.budget is None else (sizes - 1).clamp(max=self.judge.budget)
        out = self._random_of(self.chosen, torch.where(won, sizes - left, 0))
        self.current, self.chosen = replace_pixels(self.current, self.images, out), self.chosen & ~out
        self.margins[won] = torch.inf

    def _random_of(self, allowed: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """Bool[b, pixels]: counts[i] random pixels of those allowed, or all if there are fewer."""
        keys = torch.where(allowed, torch.rand(allowed.shape, generator=self.generator), 2.0)
        return allowed & (keys.argsort(dim=1).argsort(dim=1) < counts[:, None])
