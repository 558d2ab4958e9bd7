"""What the first copies of a query say of its answer, and whether they decide it: by plurality or by pairs."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
import torch

from sparsecert.attacks.defenders import ABSTAINS, scores_by_pairs
from sparsecert.attacks.early_stopping import early_decision, votes_needed
from sparsecert.bounds.binomial import tail_at_most
from sparsecert.certificates.plurality import first_choice_votes
from sparsecert.counts import Bool, Int64
from sparsecert.votes.pairs import MOST_TABLED


@dataclass(frozen=True)
class Verdicts:
    """For each image of a query: whether its copies decide it, whether the class in question is answered, the answer
    in that case or the other, and the scores, float[b, classes].
    """

    decided: Bool
    answered: Bool
    labels: Int64
    scores: torch.Tensor


class Verdict(Protocol):
    """How copies become an answer. A query may be decided by fewer copies than `early`; otherwise it takes all."""

    early: int
    ranks: bool  # whether a copy is kept as its ranking of the classes; else as its label

    def __call__(self, copies: torch.Tensor, classes: int, against: Int64 | None, search: bool) -> Verdicts:
        """From the first copies of each image: labels int16[b, stage], or ranks int16[b, stage, classes].

        The class in question is the label `against`, or with the goal to misclassify its strongest rival; without
        `against` it is the class that the copies choose. Within a `search` a verdict may let a class be answered by
        less of a lead.
        """


class ByPlurality:
    """The class with most votes, if it passes the test of `bounds.predicted` at `level`.

    With `tie`, within a search, a class is answered if it leads at all.
    """

    ranks = False

    def __init__(self, n: int, level: Fraction, error: float, tie: bool, misclassify: bool) -> None:
        self.early, self.error, self.misclassify = n, error, misclassify
        self.needs = votes_needed(n, level)
        self.search_needs = np.arange(n + 1) // 2 + 1 if tie else self.needs

    def __call__(self, copies: torch.Tensor, classes: int, against: Int64 | None, search: bool) -> Verdicts:
        table, stage = count_votes(copies, classes), copies.shape[1]
        leaders, own = _leaders(table), self._in_question(table, against)
        others, each = table[:, :-1].copy(), np.arange(len(table))
        others[each, own] = -1
        rival, needs = others.max(axis=1) + table[:, -1], self.search_needs if search else self.needs
        decided, answered = early_decision(table[each, own], rival, stage, needs, self.error, rivals=classes - 1)
        unknown = against is None or self.misclassify
        instead = ABSTAINS if unknown else np.where(leaders == own, ABSTAINS, leaders)
        scores = torch.from_numpy(table[:, :-1] / stage).float()
        return Verdicts(decided, answered, np.where(answered, own, instead), scores)

    def _in_question(self, table: Int64, against: Int64 | None) -> Int64:
        if against is None or not self.misclassify:
            return _leaders(table) if against is None else against
        others = table.copy()
        others[np.arange(len(table)), against] = -1
        return _leaders(others)


class ByPairs:
    """The class that beats every other one, as `bounds.predicted_by_pairs` proves it at `level`.

    The first `tested` of the n copies test a class that the others choose. Fewer copies leave open which class will be
    chosen.

    With `tie`, within a search, a class is answered if more than half of the tested copies rank it above each other
    one, whichever class would be chosen.
    """

    ranks = True

    def __init__(self, n: int, tested: int, level: Fraction, error: float, tie: bool, misclassify: bool) -> None:
        self.n, self.early, self.error = n, tested, error
        self.tie, self.misclassify = tie, misclassify
        self.need = bisect_left(range(self.early + 1), True, key=lambda count: self._proved(count, level))

    def _proved(self, count: int, level: Fraction) -> bool:
        return tail_at_most(count, self.early, Fraction(1, 2), level)

    def __call__(self, copies: torch.Tensor, classes: int, against: Int64 | None, search: bool) -> Verdicts:
        tested, bare = copies[:, : self.early], self.tie and search
        label = None if against is None else torch.from_numpy(against).to(copies.device)
        named = None if self.misclassify else label
        if bare or copies.shape[1] < self.n:
            own = chosen = knock_out(tested, label) if named is None else named
        else:
            chosen = choose(copies[:, self.early :])
            own = chosen if named is None else named
        above, stage = count_above(tested, own), tested.shape[1]
        smallest = above.amin(dim=1).cpu().numpy()
        need = self.early // 2 + 1 if bare else self.need
        needs = np.broadcast_to(np.int64(need), self.early + 1)
        decided, answered = early_decision(smallest, stage - smallest, stage, needs, self.error, rivals=classes - 1)
        answered &= (own == chosen).cpu().numpy()
        labels = np.where(answered, own.cpu().numpy(), ABSTAINS)
        return Verdicts(decided, answered, labels, scores_by_pairs(above.cpu(), own.cpu(), stage))


def count_above(ranks: torch.Tensor, own: torch.Tensor | int) -> torch.Tensor:
    """int64[b, classes]: the copies that rank each input's own class above another one; itself, all valid copies.

    ranks: int16[b, copies, classes], all 0 for an invalid copy; own: int64[b], or one class for all.
    """
    classes = torch.as_tensor(own, device=ranks.device).expand(len(ranks))
    owned = ranks.gather(2, classes[:, None, None].expand(-1, ranks.shape[1], 1))
    above = (owned < ranks).sum(dim=1)
    return above.scatter_(1, classes[:, None], (ranks.amax(dim=2) > 0).sum(dim=1, keepdim=True))


def choose(ranks: torch.Tensor) -> torch.Tensor:
    """int64[b]: the class that these copies choose by pairs, as `Counts.choosing_by`."""
    classes = ranks.shape[2]
    if classes > MOST_TABLED:
        return first_choice_votes(ranks).argmax(dim=1)
    return torch.stack([count_above(ranks, label).amin(dim=1) for label in range(classes)], dim=1).argmax(dim=1)


def knock_out(ranks: torch.Tensor, excluded: torch.Tensor | None = None) -> torch.Tensor:
    """int64[b]: the class that more than half of the copies rank above each other one, if there is one.

    Each class in turn meets the winner of those before it, and that class loses to none. The `excluded` class of an
    input, int64[b], does not take part.
    """
    winners, own = torch.zeros(len(ranks), dtype=torch.int64, device=ranks.device), ranks[:, :, 0]
    for rival in range(1, ranks.shape[2]):
        theirs = ranks[:, :, rival]
        lost = (own > theirs).sum(dim=1) > (own < theirs).sum(dim=1)
        if excluded is not None:
            lost = (lost | (winners == excluded)) & (excluded != rival)
        winners, own = torch.where(lost, rival, winners), torch.where(lost[:, None], theirs, own)
    return winners


def count_votes(votes: torch.Tensor, classes: int) -> Int64:
    """int64[b, classes + 1], the last for invalid votes."""
    table = torch.zeros(len(votes), classes + 1, dtype=torch.int64, device=votes.device)
    return table.scatter_add_(1, votes.long(), torch.ones_like(votes, dtype=torch.int64)).cpu().numpy()


def _leaders(table: Int64) -> Int64:
    leaders: Int64 = table[:, :-1].argmax(axis=1)
    return leaders
