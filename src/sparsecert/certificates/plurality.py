"""The plurality over a fixed set of masks, with a certificate that holds always: no alpha, nothing is estimated.

Levine & Feizi, "Deep Partition Aggregation" (ICLR 2021), for the parts of a training set; here of an input's units, and
for masks that overlap.
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
    """The class that g returns for x, and for every x' in which at most `radius` units are altered. Always, not with
    some probability: g is the vote of exactly these masks. It says nothing about the true label.
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
    """int64[m]: the class that each copy ranks first; the number of classes where it ranks all alike: no opinion."""
    labels: Int64 = np.where(ranks.min(axis=1) == ranks.max(axis=1), ranks.shape[1], ranks.argmin(axis=1))
    return labels


def tallied(labels: Int64, classes: int) -> Int64:
    """int64[classes]: the votes of each; a label of `classes` or more is a vote for nobody."""
    return np.bincount(labels, minlength=classes)[:classes].astype(np.int64)


def plurality(labels: Int64, classes: int, adversary: Adversary) -> ExactCertificate:
    """The winner A of the votes, int64[m], and how many units may be altered without another class winning.

    A class j wins in place of A only if n_A - n_j falls below 0, or to 0 where j < A, which ties favour. Of the masks
    that retain an altered unit, one that votes for A can bring the difference down by 2 (by voting for j), one that
    votes for j by nothing, any other by 1.
    """
    counts = tallied(labels, classes)
    label = winner(counts)
    rivals = np.array([rival for rival in range(classes) if rival != label], dtype=np.int64)
    costs = against(labels, label, rivals)
    budgets = counts[label] - counts[rivals] - (rivals < label)
    return ExactCertificate(label, int(adversary.radii(costs, budgets).min()))


def against(labels: Int64, leader: int, rivals: Int64) -> Int64:
    """int64[rivals, m]: by how much a mask that retains an altered unit can bring the lead over each rival down."""
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
