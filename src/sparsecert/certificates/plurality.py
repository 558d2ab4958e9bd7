"""Plurality vote of a fixed set of masks, with a deterministic certificate: no alpha, nothing is estimated.

Levine & Feizi, "Deep Partition Aggregation" (ICLR 2021), for partitions of a training set; here for the units of an
input, and for masks that may overlap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sparsecert.certificates.adversary import Adversary
from sparsecert.counts import Int64
from sparsecert.registry import RULES

if TYPE_CHECKING:
    import torch

Ranks = npt.NDArray[np.integer]


@dataclass(frozen=True)
class ExactCertificate:
    """The class that g returns for x, and for every x' with at most `radius` perturbed units. Deterministic: g is the
    vote of exactly these masks. It says nothing about the true label.
    """

    label: int
    radius: int


@dataclass(frozen=True)
class Rule:
    """How the votes of a fixed set of masks elect a class. Both functions take how each mask's copy ranks the classes,
    int[masks, classes], 0 for the one it votes for; all alike for a copy without an opinion.

    winner: the class that is elected. certify: it, and how large a change surely leaves it elected. standings: for
    attacks, many elections at once on their device: int16[b, masks, classes] -> int64[b, classes], the votes of each
    class, of which the largest, of equal ones the first, is the winner's; None: `winner` is asked one by one.
    """

    winner: Callable[[Ranks], int]
    certify: Callable[[Ranks, Adversary], ExactCertificate]
    standings: Callable[[torch.Tensor], torch.Tensor] | None = None


def winner(counts: Int64) -> int:
    """The class with most votes; the lowest-numbered one on a tie."""
    return int(counts.argmax())


def firsts(ranks: Ranks) -> Int64:
    """int64[m]: the class that each copy ranks first; the number of classes if it ranks all alike (no opinion)."""
    labels: Int64 = np.where(ranks.min(axis=1) == ranks.max(axis=1), ranks.shape[1], ranks.argmin(axis=1))
    return labels


def tallied(labels: Int64, classes: int) -> Int64:
    """int64[classes]: the votes per class; a label of `classes` or more votes for no class."""
    return np.bincount(labels, minlength=classes)[:classes].astype(np.int64)


def plurality(labels: Int64, classes: int, adversary: Adversary) -> ExactCertificate:
    """The winner A of the votes, int64[m], and how many units may be perturbed without another class winning.

    A class j replaces A only if n_A - n_j falls below 0, or to 0 if j < A, since ties go to the lower class. A mask
    that retains a perturbed unit can lower the difference by 2 if it votes for A (by voting for j), by 0 if it votes
    for j, and by 1 otherwise.
    """
    counts = tallied(labels, classes)
    label = winner(counts)
    rivals = np.array([rival for rival in range(classes) if rival != label], dtype=np.int64)
    costs = against(labels, label, rivals)
    budgets = counts[label] - counts[rivals] - (rivals < label)
    return ExactCertificate(label, int(adversary.radii(costs, budgets).min()))


def against(labels: Int64, leader: int, rivals: Int64) -> Int64:
    """int64[rivals, m]: how much a mask that retains a perturbed unit can lower the lead over each rival."""
    costs: Int64 = 1 + (labels == leader).astype(np.int64) - (labels == rivals[:, None])
    return costs


def first_choices(ranks: torch.Tensor) -> torch.Tensor:
    """int64[b, classes]: how many copies rank each class first; ranks are all 0 for a copy without an opinion."""
    opinion = ranks.amax(dim=2, keepdim=True) > 0
    return ((ranks == 0) & opinion).sum(dim=1)


RULES.register("plurality")(
    Rule(
        winner=lambda ranks: winner(tallied(firsts(ranks), ranks.shape[1])),
        certify=lambda ranks, adversary: plurality(firsts(ranks), ranks.shape[1], adversary),
        standings=first_choices,
    )
)
