"""Run-off election by a fixed set of masks, with a deterministic certificate.

Rezaei, Banihashem, Chegini & Feizi, "Run-Off Election: Improved Provable Defense against Data Poisoning Attacks" (ICML
2023), for partitions of a training set; Hammoudeh & Lowd, "Provable Robustness Against a Union of L0 Adversarial
Attacks" (AAAI 2024), for disjoint features. Here for masks that may overlap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sparsecert.certificates.adversary import Adversary
from sparsecert.certificates.plurality import (
    Ranks,
    Rule,
    count_labels,
    first_choice_votes,
    preferences,
    top_choices,
    vote_costs,
)
from sparsecert.counts import Int64
from sparsecert.registry import RULES

if TYPE_CHECKING:
    import torch

MOST = np.iinfo(np.int64).max  # more units than any input has


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


def run_off(ranks: Ranks, adversary: Adversary) -> tuple[Int64, Int64]:
    """int64[b]: the winners W of the run-off, and how many units may be perturbed without another class winning.

    ranks: int[b, m, classes], each copy's ranking of the classes, 0 for its first choice, without ties; or all equal
    for a copy without an opinion. Round one: each copy votes for its first choice, and the two classes with the most
    votes advance. Round two: each copy votes for the finalist it ranks higher. Ties go to the lower class.

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
    labels, winners = top_choices(ranks), run_off_winners(ranks)
    round_one = _RoundOne(labels, count_labels(labels, ranks.shape[2]), winners, adversary)
    radii = round_one.none_enters_and_beats(_beaten(ranks, winners, adversary))
    return winners, round_one.no_two_overtake(radii)


def _beaten(ranks: Ranks, winners: Int64, adversary: Adversary) -> Int64:
    """int64[classes, b]: a number of perturbed units with which each class cannot beat the winner in round two."""
    own, beaten = ranks[np.arange(len(ranks)), :, winners], []
    for rival in range(ranks.shape[2]):
        prefer = preferences(own, ranks[..., rival])
        beaten.append(adversary.radii(1 + prefer, prefer.sum(axis=1, dtype=np.int64) - (rival < winners)))
    return np.stack(beaten)


@dataclass(frozen=True)
class _RoundOne:
    """The first choices of many elections, and who wins in the end. labels: int64[b, m]; counts: int64[b, classes].

    rows: the elections that a question is about, each with its own classes. Rivals are looked at in the order of the
    units that they need, as long as these are fewer than the radius that is known already.
    """

    labels: Int64
    counts: Int64
    winners: Int64
    adversary: Adversary

    def overtaken(self, rows: Int64, leaders: Int64, rivals: Int64) -> Int64:
        """int64[rows]: a number of perturbed units with which the rival cannot overtake the leader; -1 if it leads."""
        budgets = self.counts[rows, leaders] - self.counts[rows, rivals] - (rivals < leaders)
        return self.adversary.radii(vote_costs(self.labels[rows], leaders[:, None], rivals[:, None]), budgets)

    def both_overtake(self, rows: Int64, ones: Int64, others: Int64) -> Int64:
        """int64[rows]: a number of perturbed units that cannot lower the sum of the winner's leads over two classes
        enough for both to overtake it.
        """
        labels, winners = self.labels[rows], self.winners[rows]
        costs = 1 + 2 * (labels == winners[:, None]).astype(np.int8)
        needs = np.zeros(len(rows), dtype=np.int64)
        for rivals in (ones, others):
            costs -= labels == rivals[:, None]
            needs += self.counts[rows, winners] - self.counts[rows, rivals] + (rivals > winners)
        return self.adversary.radii(costs, needs - 1)

    def none_enters_and_beats(self, beaten: Int64) -> Int64:
        """int64[b]: a number of perturbed units with which no class enters round two and beats the winner there.

        beaten: int64[classes, b], a number with which each class does not beat it.
        """
        radii = np.full(len(self.winners), MOST)
        for rivals, enough in self._in_order(beaten):
            rows = np.flatnonzero(enough < radii)
            if not rows.size:
                break
            radii[rows] = np.minimum(radii[rows], np.maximum(enough[rows], self._enters(rows, rivals[rows])))
        return radii

    def _enters(self, rows: Int64, rivals: Int64) -> Int64:
        """int64[rows]: a number of perturbed units with which the rival cannot pass all classes but the winner."""
        enough = np.full(len(rows), -1)
        for other in range(self.counts.shape[1]):
            third = np.flatnonzero((rivals != other) & (self.winners[rows] != other))
            overtaken = self.overtaken(rows[third], np.full(len(third), other), rivals[third])
            enough[third] = np.maximum(enough[third], overtaken)
        return enough

    def no_two_overtake(self, most: Int64) -> Int64:
        """int64[b]: a number of perturbed units with which no two classes overtake the winner, at most `most`."""
        radii, inputs, classes = most.copy(), np.arange(len(self.winners)), np.arange(self.counts.shape[1])
        overtaken = np.stack([self.overtaken(inputs, self.winners, np.full(len(inputs), rival)) for rival in classes])
        earlier: list[Int64] = []
        for others, enough in self._in_order(overtaken):
            if (enough >= radii).all():
                break
            for ones in earlier:
                rows = np.flatnonzero(enough < radii)
                together = self.both_overtake(rows, ones[rows], others[rows])
                radii[rows] = np.minimum(radii[rows], np.maximum(enough[rows], together))
            earlier.append(others)
        return radii

    def _in_order(self, needed: Int64) -> Iterator[tuple[Int64, Int64]]:
        """The rivals of each winner from the one that needs the fewest units, int64[b], with these units.

        needed: int64[classes, b]; what it says of the winner, which is no rival of itself, does not matter.
        """
        inputs, needed = np.arange(len(self.winners)), needed.copy()
        needed[self.winners, inputs] = MOST
        for rivals in needed.argsort(axis=0, kind="stable")[:-1]:
            yield rivals, needed[rivals, inputs]


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


RULES.register("run-off")(
    Rule(
        winners=run_off_winners,
        certify=run_off,
        standings=run_off_standings,
    )
)
