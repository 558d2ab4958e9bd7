"""The default: a fast gradient attack, a random search from what it finds, a clean-up, and a greedy attack; the best
is kept.

The recipe is AutoAttack's: Croce & Hein, "Reliable evaluation of adversarial robustness with an ensemble of diverse
parameter-free attacks" (ICML 2020).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from sparsecert.attacks.attack import Attack
from sparsecert.attacks.carlini_wagner import STEPS
from sparsecert.attacks.defenders import NoGradients
from sparsecert.attacks.judge import NOT_FOUND, Judge
from sparsecert.attacks.pointwise import ROUNDS, add_and_revert
from sparsecert.attacks.saliency import Saliency
from sparsecert.attacks.sparse_pgd import STEP, SparsePGD
from sparsecert.attacks.sparse_rs import QUERIES, SparseRS
from sparsecert.registry import ATTACKS, Option

ROUND = 50  # queries in the time of a round, about
GREEDY = 0.1  # of the time, by the saliency attack, about


@ATTACKS.register("ensemble")
@dataclass(frozen=True)
class Ensemble(Attack):
    """Sparse-PGD with few steps, where the defender has gradients; Sparse-RS from what that found, or from noise;
    rounds of the Pointwise attack on the best of both; then the saliency attack, again where there are gradients.

    Saliency comes last, and searches from the image itself: what it finds is tuned to its masks, and a random defender
    does not always confirm it with fresh ones. Then what the others found still counts.
    """

    version: ClassVar[int] = 2  # 1: without saliency
    options: ClassVar[tuple[Option, ...]] = (STEPS, replace(QUERIES, setting="queries"), ROUNDS)

    steps: int = 100
    queries: int = 1_000
    rounds: int = 20

    def run(self, judge: Judge, which: torch.Tensor, generator: torch.Generator) -> None:
        with judge.part(1 - GREEDY, GREEDY):
            with suppress(NoGradients), judge.part(STEP * self.steps, self.queries + ROUND * self.rounds):
                SparsePGD(self.steps).run(judge, which, generator)
            with judge.part(self.queries, ROUND * self.rounds):
                SparseRS(self.queries).run(judge, which, generator)
            found = which[judge.distances[which] != NOT_FOUND]
            current, slots = judge.best[found], torch.arange(len(found))
            add_and_revert(judge, current, found, generator, slots, self.rounds)
        with suppress(NoGradients):
            Saliency().run(judge, which, generator)
