"""A surrogate of a smoothed classifier for attacks: common random masks make similar queries cheap."""

from __future__ import annotations

import numpy as np
import torch

from sparsecert.attacks.affected_masks import AffectedMasks, SlotCache
from sparsecert.attacks.defenders import ABSTAINS, Answers, SmoothedDefender
from sparsecert.attacks.early_stopping import early_decision, votes_needed
from sparsecert.bounds import corrected_alpha
from sparsecert.counts import Bool, Int64
from sparsecert.errors import InputError, check_int
from sparsecert.records.attack_records import ANY, MISCLASSIFY
from sparsecert.schemes import ATTACK
from sparsecert.smoothed import Smoothed
from sparsecert.votes.voter import Voter

STAGE_DIVISORS = 256, 64, 16, 8, 4, 2, 1  # decisions after n / 256 copies, n / 64, ...
FOOLED_DIVISOR = 16  # "fooled" takes n / 16 copies or more: the attack goes on from there, and would overfit to few
MOST_COPIES = 1 << 20  # all masks are kept in memory


class SurrogateDefender(SmoothedDefender):
    """Predicts as `SmoothedDefender` does, but with the same `n` masks for every query, and as few of them as suffice.

    Within a search (a slot) only copies whose masks show a pixel changed since are classified again: k / d of them for
    one pixel, 5.7% on MNIST at k = 45. With `error` = 0 and no `tie` the answer is exactly that of all `n` copies.

    Where only one label matters (`against`), the query stops after the first n / 16, n / 8, n / 4 or n / 2 copies if
    these decide it: see `early_decision`, a test that errs with probability at most `error` at each stage. That the
    label is answered, so that the attempt failed, may be decided after n / 256 or n / 64.

    What an attack finds is tuned to these masks and must be confirmed by a `SmoothedDefender`, which draws fresh ones.
    To succeed there, an attack aims further: with `tie`, within a search or about one label, a class is answered if it
    leads at all.

    With the goal to misclassify, `against` asks whether any other class is answered. A search then aims at the whole
    lead that an answer takes: `tie` does not apply.
    """

    def __init__(
        self,
        smoothed: Smoothed,
        n: int = 10_000,
        alpha: float = 0.05,
        seed: int = 0,
        error: float = 0.05,
        tie: bool = True,
        copies: int = 128,
        goal: str = ANY,
    ) -> None:
        n = check_int("n", n, 1, MOST_COPIES, f"{MOST_COPIES} where all queries have the same masks")
        super().__init__(smoothed, n, alpha, seed, copies)
        if not 0 <= error < 0.5:
            raise InputError(f"error must be from 0 (all copies, always) to below 0.5, got {error!r}")
        self.error = error
        self.needs = votes_needed(n, corrected_alpha(alpha, smoothed.scheme, n))
        self.misclassify = goal == MISCLASSIFY
        self.search_needs = np.arange(n + 1) // 2 + 1 if tie and not self.misclassify else self.needs
        self.masks = smoothed.scheme.masks(seed, [0], range(ATTACK, ATTACK + n), smoothed.device)[0]
        self.stages = [-(-n // part) for part in (STAGE_DIVISORS if error else (1,))]
        self._affected = AffectedMasks(smoothed.encoding, self.masks)
        self._cache: SlotCache | None = None
        self._last_query: tuple[torch.Tensor, SlotCache] | None = None

    def answers(
        self, images: torch.Tensor, slots: torch.Tensor | None = None, against: torch.Tensor | None = None
    ) -> Answers:
        """Scores are shares of the votes used."""
        inputs = self.smoothed.check(images).to(self.smoothed.device)
        voter = self._voter = self._voter or self.smoothed.voter(inputs[:1])
        query, affected = self._from_cache(inputs, slots)
        before = query.known.clone()
        labels, tables = np.empty(len(images), dtype=np.int64), np.empty((len(images), voter.classes))
        left, search = np.arange(len(images)), slots is not None or against is not None
        for stage in self.stages if against is not None else self.stages[-1:]:
            rows = torch.from_numpy(left).to(inputs.device)
            self._classify(voter, query, rows, stage)
            table = count_votes(query.results[rows, :stage], voter.classes)
            own = self._decisive(table, None if against is None else against.numpy()[left])
            done, answered = self._decide(table, own, stage, self.search_needs if search else self.needs)
            done &= (answered != self.misclassify) | (stage * FOOLED_DIVISOR >= self.n)
            places = left[done]
            others = np.where(_leaders(table) == own, ABSTAINS, _leaders(table))
            unknown = against is None or self.misclassify
            labels[places] = np.where(answered, own, ABSTAINS if unknown else others)[done]
            tables[places] = table[done, :-1] / stage
            left = left[~done]
        if slots is not None:
            self._update_cache(slots, query, affected)
        evaluations = (query.known & ~before).sum(dim=1).cpu()
        return Answers(torch.from_numpy(labels), torch.from_numpy(tables).float(), evaluations)

    @property
    def is_random(self) -> bool:
        return False

    def accept(self, places: torch.Tensor) -> None:
        if self._last_query is None:
            return
        slots, query = self._last_query
        assert self._cache is not None
        places = places.to(slots.device)
        self._cache.put(slots[places], query, places)

    def _from_cache(self, inputs: torch.Tensor, slots: torch.Tensor | None) -> tuple[SlotCache, torch.Tensor]:
        """The images with the cached votes that still hold; Bool[b, n]: the copies affected since."""
        shape, device = (len(inputs), len(self.masks)), inputs.device
        if slots is None:
            votes = torch.zeros(shape, dtype=torch.int16, device=device)
            return SlotCache(inputs, votes, votes.bool()), ~votes.bool()
        if self._cache is None:
            none = torch.zeros(0, shape[1], dtype=torch.int16, device=device)
            self._cache = SlotCache(inputs[:0], none, none.bool())
        at, before = slots.to(device), len(self._cache.images)
        self._cache = self._cache.grow(slots)
        self._cache.images[at[at >= before]] = inputs[at >= before]
        affected = self._affected(inputs, self._cache.images[at])
        return SlotCache(inputs, self._cache.results[at], self._cache.known[at] & ~affected), affected

    def _classify(self, voter: Voter, query: SlotCache, rows: torch.Tensor, stage: int) -> None:
        """Makes the first `stage` votes of these rows known."""
        pairs = (~query.known[rows, :stage]).nonzero()
        which, mask = rows[pairs[:, 0]], pairs[:, 1]
        found = voter.labels(query.images, which, torch.zeros_like(mask), mask + ATTACK, self.seed)
        query.results[which, mask] = found.to(torch.int16)
        query.known[which, mask] = True

    def _decisive(self, table: Int64, against: Int64 | None) -> Int64:
        """The classes of which it matters whether they are answered: `against`, or its strongest rivals."""
        if against is None or not self.misclassify:
            return _leaders(table) if against is None else against
        others = table.copy()
        others[np.arange(len(table)), against] = -1
        return _leaders(others)

    def _decide(self, table: Int64, own: Int64, stage: int, needs: Int64) -> tuple[Bool, Bool]:
        rows = np.arange(len(table))
        others = table[:, :-1].copy()
        others[rows, own] = -1
        rival = others.max(axis=1) + table[:, -1]
        return early_decision(table[rows, own], rival, stage, needs, self.error, rivals=others.shape[1] - 1)

    def _update_cache(self, slots: torch.Tensor, query: SlotCache, affected: torch.Tensor) -> None:
        """Adds the new votes of unaffected copies: they hold for the cached image as well."""
        assert self._cache is not None
        at = slots.to(query.results.device)
        holds = query.known & ~affected
        self._cache.results[at] = torch.where(holds, query.results, self._cache.results[at])
        self._cache.known[at] |= holds
        self._last_query = at, query


def count_votes(votes: torch.Tensor, classes: int) -> Int64:
    """int64[b, classes + 1], the last for invalid votes."""
    table = torch.zeros(len(votes), classes + 1, dtype=torch.int64, device=votes.device)
    return table.scatter_add_(1, votes.long(), torch.ones_like(votes, dtype=torch.int64)).cpu().numpy()


def _leaders(table: Int64) -> Int64:
    leaders: Int64 = table[:, :-1].argmax(axis=1)
    return leaders
