"""Sparse-AutoAttack: Sparse-PGD with both gradients, then Sparse-RS.

Zhong, Huang & Liu, "Towards Efficient Training and Evaluation of Robust Models against l0 Bounded Adversarial
Perturbations" (ICML 2024).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from sparsecert.attacks.attack import Attack
from sparsecert.attacks.carlini_wagner import STEPS
from sparsecert.attacks.judge import Judge
from sparsecert.attacks.sparse_pgd import STEP, SparsePGD
from sparsecert.attacks.sparse_rs import QUERIES, SparseRS
from sparsecert.registry import ATTACKS, Option


@ATTACKS.register("sparse-autoattack")
@dataclass(frozen=True)
class SparseAutoAttack(Attack):
    """Two runs of Sparse-PGD, of `steps` each, and one of Sparse-RS, of `queries`; each searches below the best so far.

    As published, each attack gets only the images on which those before it failed. Here every attack gets all of them,
    since the number of pixels is minimised.
    """

    options: ClassVar[tuple[Option, ...]] = (replace(STEPS, default=300), replace(QUERIES, setting="queries"))

    steps: int = 300
    queries: int = 1_000

    def run(self, judge: Judge, which: torch.Tensor, generator: torch.Generator) -> None:
        by_gradients = STEP * self.steps
        with judge.part(by_gradients, by_gradients + self.queries):
            SparsePGD(self.steps).run(judge, which, generator)
        with judge.part(by_gradients, self.queries):
            SparsePGD(self.steps, projected=True).run(judge, which, generator)
        SparseRS(self.queries).run(judge, which, generator)
