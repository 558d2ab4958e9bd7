"""Pairwise comparison by a fixed set of masks, with a deterministic certificate: the Condorcet winner.

Every copy ranks all classes; the class that beats each other one in a direct comparison is elected. Nothing published
was found that certifies this for ablation or smoothing; the costs are those of the second round of `run_off`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sparsecert.certificates.adversary import Adversary
from sparsecert.certificates.plurality import Ranks, Rule, class_by_class, preferences
from sparsecert.certificates.run_off import run_off_standings, run_off_winners
from sparsecert.counts import Int64
from sparsecert.registry import RULES

if TYPE_CHECKING:
    import torch


def pairwise(ranks: Ranks, adversary: Adversary) -> tuple[Int64, Int64]:
    """int64[b]: the winners, and how many units may be perturbed without another class winning.

    ranks: int[b, m, classes], each copy's ranking of the classes, 0 for its first choice, without ties; or all equal
    for a copy without an opinion. Let lead_j be the number of copies that rank A above j, less the number that rank j
    above A. A beats j if lead_j > 0, or if lead_j = 0 and A < j; of any two classes exactly one beats the other, so at
    most one class A beats all others. It is elected. Where there is none (a cycle), the winner of the run-off is.

    If A beats all others, another class wins only if some j beats A: lead_j must fall below 0, or to 0 if j < A. A mask
    that retains a perturbed unit can lower lead_j by 2 if it ranks A above j, by 1 if it has no opinion, and by 0 if it
    ranks j above A; any other mask votes as before. As long as the damage of a perturbation is within the budget
    lead_j - [j < A] for every j, A beats every class, so it is elected. The winner of a cycle has radius 0.

    For disjoint masks, of which at least lead_j rank A above j, this is the smallest floor((lead_j - [j < A]) / 2).
    """
    by_class = class_by_class(ranks)
    winners, own = _candidates(by_class)
    prefer = preferences(own, by_class)
    inputs, classes = np.arange(len(winners)), np.arange(len(by_class))[:, None]
    budgets = _lead(prefer) - (classes < winners)
    budgets[winners, inputs] = ranks.shape[1]  # A is no rival of itself, and all masks cost that much
    radii = adversary.least_radii(1 + prefer.transpose(0, 2, 1), budgets)
    cycles = (budgets < 0).any(axis=0)
    winners[cycles], radii[cycles] = run_off_winners(ranks[cycles]), 0
    return winners, radii


def pairwise_winners(ranks: Ranks) -> Int64:
    """int64[b]: the winners alone."""
    by_class = class_by_class(ranks)
    winners, own = _candidates(by_class)
    cycles = (_lead(preferences(own, by_class)) < (np.arange(len(by_class))[:, None] < winners)).any(axis=0)
    winners[cycles] = run_off_winners(ranks[cycles])
    return winners


def _candidates(by_class: Ranks) -> tuple[Int64, Ranks]:
    """The class of each input that beats all others, if one does: int64[b]; and its ranks, [m, b].

    Each class in turn meets the winner of those before it. No other one can be left at the end: it would have lost to
    the class that beats all others, or come after it and lost.
    """
    winners, own = np.zeros(by_class.shape[2], dtype=np.int64), by_class[0]
    for rival, theirs in enumerate(by_class[1:], start=1):
        lost = _lead(preferences(own, theirs)) < 0  # a tie is the lower class's
        winners[lost], own = rival, np.where(lost, theirs, own)
    return winners, own


def _lead(preferences: npt.NDArray[np.int8]) -> Int64:
    """int64[..., b]: of all copies of an input, the sum."""
    lead: Int64 = preferences.sum(axis=-2, dtype=np.int32).astype(np.int64)  # adds up twice as fast as in 64 bits
    return lead


def pairwise_standings(ranks: torch.Tensor) -> torch.Tensor:
    """int64[b, classes]: for each class the smallest number of copies that rank it above another one.

    With v valid copies it is v / 2 or more for the class that beats all others, and v / 2 or less for any other one: if
    both are v / 2, the two are tied and the former comes first. In a cycle the run-off's winner gets the most.
    """
    import torch

    classes = torch.arange(ranks.shape[2], device=ranks.device)
    fewest, wins = [], []
    for label in classes.tolist():
        own = ranks[:, :, label, None]
        above, below = (own < ranks).sum(dim=1), (own > ranks).sum(dim=1)
        above[:, label] = ranks.shape[1]
        fewest.append(above.amin(dim=1))
        wins.append((2 * above + (classes > label) > 2 * below).all(dim=1))
    standings, cycle = torch.stack(fewest, dim=1), ~torch.stack(wins, dim=1).any(dim=1, keepdim=True)
    winner = run_off_standings(ranks).argmax(dim=1, keepdim=True) == classes
    return torch.where(cycle & winner, standings.amax(dim=1, keepdim=True) + 1, standings)


RULES.register("pairwise")(Rule(winners=pairwise_winners, certify=pairwise, standings=pairwise_standings))
