"""Sparse-RS: a random search over which pixels to change, and to what.

Croce, Andriushchenko, Singh, Flammarion & Hein, "Sparse-RS: a Versatile Framework for Query-Efficient Sparse Black-Box
Adversarial Attacks" (AAAI 2022).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from sparsecert.attacks.attack import Attack
from sparsecert.attacks.defenders import leads
from sparsecert.attacks.judge import Judge, changed
from sparsecert.attacks.pointwise import corners, mixed, salted, take_back
from sparsecert.registry import ATTACKS, Option

STAGES = ((0.0, 1.0), (0.005, 0.5), (0.02, 0.25), (0.1, 0.1), (0.25, 0.05), (0.5, 0.03), (0.8, 0.01))
QUERIES = Option("--queries", int, "Queries of each image besides the start.", "steps", least=1, default=1_000)


@ATTACKS.register("sparse-rs")
@dataclass(frozen=True)
class SparseRS(Attack):
    """Keeps a set of pixels of each image, set to the bounds at random, and swaps a few of them at a time for others
    wherever that brings the defender's lead down; what share, falls as the search goes on.

    The published attack is for a given number of pixels, and ends when it succeeds. To find the fewest, this one starts
    from salt-and-pepper noise of which the Pointwise attack has set back what it can, and whenever a set succeeds goes
    on with one pixel less, taken out at random. The shares at which it swaps are this package's. At most `steps`
    queries of each image, besides the start.
    """

    options: ClassVar[tuple[Option, ...]] = (QUERIES,)

    steps: int = 1_000
    start: float = 0.3

    def run(self, judge: Judge, which: torch.Tensor, generator: torch.Generator) -> None:
        starts, found = salted(judge, which, generator)
        which = which[found]
        if not len(which):
            return
        current = starts[found]
        slots = found.nonzero()[:, 0]
        take_back(judge, current, which, generator, slots)
        search = _Search(judge, which, current, generator, slots)
        for step in range(self.steps):
            search.step(self._share(step))

    def _share(self, step: int) -> float:
        """Of the pixels that are swapped in a step."""
        return self.start * [factor for begin, factor in STAGES if begin <= step / self.steps][-1]


class _Search:
    """The state of all images' searches: each image's set, its values, and the lead that it leaves the defender."""

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
        self.leads = torch.full((len(which),), torch.inf)
        self.chosen = changed(self.current, self.images)
        self._drop(torch.ones(len(which), dtype=torch.bool))

    def step(self, share: float) -> None:
        """One attempt for each image whose set is not empty."""
        sizes = self.chosen.sum(dim=1)
        swapped = (share * sizes).ceil().long().clamp(min=1)
        swapped = torch.minimum(swapped, self.chosen.shape[1] - sizes)
        out = self._random_of(self.chosen, swapped)
        into = self._random_of(~self.chosen, swapped)
        chosen = self.chosen & ~out | into
        attempts = mixed(mixed(self.current, self.images, out), corners(self.judge, self.images, self.generator), into)
        live = (sizes > 0).nonzero()[:, 0]
        if not len(live):
            return
        fooled, answers = self.judge.asked(attempts[live], self.which[live], self.slots[live])
        left = leads(answers.scores, self.judge.labels[self.which[live]])
        lower = left <= self.leads[live]
        self.judge.defender.went_on(lower.nonzero()[:, 0])
        better = live[lower]
        self.current[better], self.chosen[better] = attempts[better], chosen[better]
        self.leads[live] = torch.minimum(left, self.leads[live])
        won = torch.zeros(len(self.which), dtype=torch.bool)
        won[live[fooled]] = True
        self.current[won], self.chosen[won] = attempts[won], changed(attempts[won], self.images[won])
        self._drop(won)

    def _drop(self, won: torch.Tensor) -> None:
        """Goes on with one pixel less where a set succeeded, or with as many as the budget allows if that is fewer."""
        sizes = self.chosen.sum(dim=1)
        left = sizes - 1 if self.judge.budget is None else (sizes - 1).clamp(max=self.judge.budget)
        out = self._random_of(self.chosen, torch.where(won, sizes - left, 0))
        self.current, self.chosen = mixed(self.current, self.images, out), self.chosen & ~out
        self.leads[won] = torch.inf

    def _random_of(self, allowed: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """Bool[b, pixels]: counts[i] random pixels of those allowed, or all of them if there are fewer."""
        keys = torch.where(allowed, torch.rand(allowed.shape, generator=self.generator), 2.0)
        return allowed & (keys.argsort(dim=1).argsort(dim=1) < counts[:, None])
