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

from sparsecert.certificates.adversary import Adversary, Costs
from sparsecert.counts import Counts, Int64
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
    """How the votes of a fixed set of masks elect a class, for many inputs at once. All functions take how each mask's
    copy ranks the classes, int[b, masks, classes], 0 for the one it votes for; all alike for a copy without an opinion.

    winners: int64[b], the classes that are elected. certify: these, and int64[b], how large a change surely leaves each
    elected. standings: for attacks, on their device: int64[b, classes], the votes of each class, of which the largest,
    of equal ones the first, is the winner's; None: there are only `winners`.
    """

    winners: Callable[[Ranks], Int64]
    certify: Callable[[Ranks, Adversary], tuple[Int64, Int64]]
    standings: Callable[[torch.Tensor], torch.Tensor] | None = None


def class_by_class(ranks: Ranks) -> Ranks:
    """The same ranks as int[classes, m, b]: NumPy compares and counts copies fastest with many inputs side by side."""
    return np.ascontiguousarray(ranks.transpose(2, 1, 0))


def top_choices(ranks: Ranks) -> Int64:
    """int64[..., m]: the class that each copy ranks first; the number of classes if it ranks all alike (no opinion)."""
    labels: Int64 = np.where(ranks.min(axis=-1) == ranks.max(axis=-1), ranks.shape[-1], ranks.argmin(axis=-1))
    return labels


def count_labels(labels: Int64, classes: int) -> Int64:
    """int64[..., classes]: the votes per class; a label of `classes` or more votes for no class."""
    counts: Int64 = np.count_nonzero(labels[..., None, :] == np.arange(classes)[:, None], axis=-1)
    return counts


def first_choices(ranks: Ranks) -> Counts:
    """The votes of many elections, int[b, m, classes], for first choices; copies without an opinion are invalid."""
    by_class = class_by_class(ranks)
    first, last = by_class.min(axis=0), by_class.max(axis=0)
    votes = np.count_nonzero((by_class == first) & (first != last), axis=1)
    return Counts(np.ascontiguousarray(votes.T), ranks.shape[1] - votes.sum(axis=0))


def plurality(labels: Int64, classes: int, adversary: Adversary) -> tuple[Int64, Int64]:
    """int64[b]: the winner A of each input's votes, int64[b, m], ties going to the lower class; and how many units may
    be perturbed without another class winning.

    A class j replaces A only if n_A - n_j falls below 0, or to 0 if j < A, since ties go to the lower class. A mask
    that retains a perturbed unit can lower the difference by 2 if it votes for A (by voting for j), by 0 if it votes
    for j, and by 1 otherwise.
    """
    counts, rivals = count_labels(labels, classes).T, np.arange(classes)[:, None]
    winners, inputs = counts.argmax(axis=0), np.arange(len(labels))
    budgets = counts[winners, inputs] - counts - (rivals < winners)
    budgets[winners, inputs] = labels.shape[1]  # A is no rival of itself, and all masks cost that much
    return winners, adversary.least_radii(vote_costs(labels, winners[:, None], rivals[..., None]), budgets)


def vote_costs(labels: Int64, leader: Int64 | int, rivals: Int64) -> Costs:
    """How much a mask that retains a perturbed unit can lower the lead over each rival: int8, broadcast together."""
    costs: Costs = 1 + (labels == leader).astype(np.int8) - (labels == rivals)
    return costs


def preferences(own: Ranks, others: Ranks) -> npt.NDArray[np.int8]:
    """int8[...]: 1 for a copy that ranks its own class above the other, -1 for below, 0 without an opinion."""
    return (own < others).view(np.int8) - (own > others).view(np.int8)


def first_choice_votes(ranks: torch.Tensor) -> torch.Tensor:
    """int64[b, classes]: how many copies rank each class first; ranks are all 0 for a copy without an opinion."""
    opinion = ranks.amax(dim=2, keepdim=True) > 0
    return ((ranks == 0) & opinion).sum(dim=1)


RULES.register("plurality")(
    Rule(
        winners=lambda ranks: count_labels(top_choices(ranks), ranks.shape[2]).argmax(axis=1),
        certify=lambda ranks, adversary: plurality(top_choices(ranks), ranks.shape[2], adversary),
        standings=first_choice_votes,
    )
)
