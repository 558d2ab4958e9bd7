"""Run-off election by a fixed set of masks, with a deterministic certificate.

Rezaei, Banihashem, Chegini & Feizi, "Run-Off Election: Improved Provable Defense against Data Poisoning Attacks" (ICML
2023), for partitions of a training set; Hammoudeh & Lowd, "Provable Robustness Against a Union of L0 Adversarial
Attacks" (AAAI 2024), for disjoint features. Here for masks that may overlap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparsecert.certificates.adversary import Adversary
from sparsecert.certificates.plurality import (
    ExactCertificate,
    Ranks,
    Rule,
    count_labels,
    first_choice_votes,
    top_choices,
    vote_costs,
)
from sparsecert.counts import Int64
from sparsecert.registry import RULES

if TYPE_CHECKING:
    import torch


def run_off_winners(ranks: Ranks) -> Int64:
    """int64[b]: of the two classes with the most first choices, the one that more copies rank above the other.

    ranks: int[b, m, classes]. Ties go to the lower class.
    """
    counts = count_labels(top_choices(ranks), ranks.shape[2])
    finalists = np.sort(np.argsort(-counts, axis=1, kind="stable")[:, :2], axis=1)
    met = np.take_along_axis(ranks, finalists[:, None], axis=2)
    lower, higher = met[..., 0], met[..., 1]
    lead = np.count_nonzero(lower < higher, axis=1) - np.count_nonzero(lower > higher, axis=1)
    winners: Int64 = np.where(lead >= 0, finalists[:, 0], finalists[:, 1])
    return winners


def run_off(ranks: Ranks, adversary: Adversary) -> ExactCertificate:
    """The winner W of the run-off, and how many units may be perturbed without another class winning.

    ranks: int[m, classes], each copy's ranking of the classes, 0 for its first choice, without ties; or all equal for
    a copy without an opinion. Round one: each copy votes for its first choice, and the two classes with the most votes
    advance. Round two: each copy votes for the finalist it ranks higher. Ties go to the lower class.

    W can lose in two ways only; for each, we find a number of units that provably does not suffice.

    1. It does not advance: two classes j and l both overtake it in round one. Let n be the votes there. For j to
       overtake W, n_W - n_j must fall by some need_j, and for l, n_W - n_l by some need_l. A mask that retains a
       perturbed unit can lower n_W - n_j by what `vote_costs` says, and the sum of both by 3 if it voted for W, by 0 if
       for j or l (what it takes from one it can only give to the other), by 1 otherwise. If the damage stays below
       need_j, or below need_l, or that to the sum below need_j + need_l, then j and l do not both overtake W.
    2. It loses to a rival j in round two. Then more copies must rank j above W than W above j, where a mask that ranks
       W above j can lower the lead by 2, one that ranks j above W by 0, one without an opinion by 1. And j must be
       ahead of every third class l in round one, which it can overtake only at the cost that `vote_costs` says. If any
       of these is out of reach, j does not win.
    """
    classes = ranks.shape[1]
    labels = top_choices(ranks)
    counts, label = count_labels(labels, classes), int(run_off_winners(ranks[None]).item())
    beaten = _beaten(ranks, label, adversary)
    radius: int | None = None
    for rival in sorted((rival for rival in range(classes) if rival != label), key=lambda rival: int(beaten[rival])):
        if radius is not None and beaten[rival] >= radius:
            break  # the remaining rivals need at least as many units
        enough = max([int(beaten[rival]), *_overtakes(labels, counts, label, rival, adversary)])
        radius = enough if radius is None else min(radius, enough)
    assert radius is not None  # there are two classes at least
    return ExactCertificate(label, _both_pass(labels, counts, label, adversary, radius))


def _passed(labels: Int64, counts: Int64, leader: int, rivals: Int64, adversary: Adversary) -> Int64:
    """int64[rivals]: a number of perturbed units with which each rival cannot overtake the leader in round one."""
    budgets = counts[leader] - counts[rivals] - (rivals < leader)
    return adversary.radii(vote_costs(labels, leader, rivals[:, None]), budgets)


def _beaten(ranks: Ranks, label: int, adversary: Adversary) -> Int64:
    """int64[classes]: a number of perturbed units with which each class cannot beat the label in round two."""
    above, below = ranks[:, [label]] < ranks, ranks[:, [label]] > ranks
    costs = (1 + above.astype(np.int64) - below).T
    leads = above.sum(axis=0) - below.sum(axis=0)
    return adversary.radii(costs, leads - (np.arange(ranks.shape[1]) < label))


def _overtakes(labels: Int64, counts: Int64, label: int, rival: int, adversary: Adversary) -> list[int]:
    """For each other class ahead of the rival: a number of perturbed units with which the rival cannot overtake it."""
    ahead = [
        other
        for other in range(len(counts))
        if other not in (label, rival) and (-counts[other], other) < (-counts[rival], rival)
    ]
    return [int(_passed(labels, counts, other, np.array([rival]), adversary).item()) for other in ahead]


def _both_pass(labels: Int64, counts: Int64, label: int, adversary: Adversary, most: int) -> int:
    """A number of perturbed units with which no two classes can overtake the label, at most `most`."""
    rivals = np.array([rival for rival in range(len(counts)) if rival != label])
    passed = _passed(labels, counts, label, rivals, adversary)
    order = passed.argsort(kind="stable")
    for later in range(1, len(order)):
        if passed[order[later]] >= most:
            break
        pairs = rivals[np.stack((order[:later], np.full(later, order[later])), axis=1)]
        together = int(_pairs_pass(labels, counts, label, pairs, adversary).min())
        most = min(most, max(int(passed[order[later]]), together))
    return most


def _pairs_pass(labels: Int64, counts: Int64, label: int, pairs: Int64, adversary: Adversary) -> Int64:
    """int64[pairs]: a number of perturbed units that cannot lower the sum of the label's leads over both classes enough
    for both to overtake it.
    """
    costs = 1 + 2 * (labels == label).astype(np.int64) - (labels == pairs[:, :, None]).any(axis=1)
    needs = (counts[label] - counts[pairs] + (pairs > label)).sum(axis=1)
    return adversary.radii(costs, needs - 1)


def run_off_standings(ranks: torch.Tensor) -> torch.Tensor:
    """int64[b, classes]: of the two classes that meet in round two, their votes there; of the others, those of round
    one. No other class has the largest number by that: each finalist has no fewer votes in round two than in round one,
    and there no fewer than the other class; where all these are equal, the finalists come first as the lower-numbered.
    """
    import torch

    counts = first_choice_votes(ranks)
    finalists = counts.argsort(dim=1, descending=True, stable=True)[:, :2]
    one, other = ranks.gather(2, finalists[:, None].expand(-1, ranks.shape[1], -1)).unbind(dim=2)
    return counts.scatter(1, finalists, torch.stack(((one < other).sum(dim=1), (other < one).sum(dim=1)), dim=1))


def _certify(ranks: Ranks, adversary: Adversary) -> tuple[Int64, Int64]:
    found = [run_off(one, adversary) for one in ranks]
    labels, radii = zip(*((one.label, one.radius) for one in found), strict=True)
    return np.array(labels, dtype=np.int64), np.array(radii, dtype=np.int64)


RULES.register("run-off")(
    Rule(
        winners=run_off_winners,
        certify=_certify,
        standings=run_off_standings,
    )
)
