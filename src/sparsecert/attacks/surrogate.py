"""A surrogate of a smoothed classifier for attacks: common random masks make similar queries cheap."""

from __future__ import annotations

import numpy as np
import torch

from sparsecert.attacks.affected_masks import AffectedMasks, SlotCache
from sparsecert.attacks.defenders import Answers, SmoothedDefender
from sparsecert.attacks.verdicts import ByPairs, ByPlurality, Verdict
from sparsecert.bounds import corrected_alpha
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
    leads at all, by pairs if it leads each other class.

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
        bound: str | None = None,
    ) -> None:
        n = check_int("n", n, 1, MOST_COPIES, f"{MOST_COPIES} where all queries have the same masks")
        super().__init__(smoothed, n, alpha, seed, copies, bound)
        if not 0 <= error < 0.5:
            raise InputError(f"error must be from 0 (all copies, always) to below 0.5, got {error!r}")
        self.misclassify = goal == MISCLASSIFY
        self.verdict = self._verdict(error, tie and not self.misclassify)
        self.masks = smoothed.scheme.masks(seed, [0], range(ATTACK, ATTACK + n), smoothed.device)[0]
        stages = [-(-n // part) for part in (STAGE_DIVISORS if error else ())]
        self.stages = [*(stage for stage in stages if stage < self.verdict.early), n]
        self._affected = AffectedMasks(smoothed.encoding, self.masks)
        self._cache: SlotCache | None = None
        self._last_query: tuple[torch.Tensor, SlotCache] | None = None

    def _verdict(self, error: float, tie: bool) -> Verdict:
        settings = corrected_alpha(self.alpha, self.smoothed.scheme, self.tested), error, tie, self.misclassify
        by_pairs = self.procedure.method.by_pairs
        return ByPairs(self.n, self.tested, *settings) if by_pairs else ByPlurality(self.n, *settings)

    def answers(
        self, images: torch.Tensor, slots: torch.Tensor | None = None, against: torch.Tensor | None = None
    ) -> Answers:
        """Scores are shares of the votes used."""
        inputs = self.smoothed.check(images).to(self.smoothed.device)
        voter = self._voter = self._voter or self.smoothed.voter(inputs[:1])
        query, affected = self._from_cache(inputs, slots, voter.classes)
        before = query.known.clone()
        labels, scores = np.empty(len(images), dtype=np.int64), torch.empty(len(images), voter.classes)
        left, search = np.arange(len(images)), slots is not None or against is not None
        for stage in self.stages if against is not None else self.stages[-1:]:
            rows = torch.from_numpy(left).to(inputs.device)
            self._classify(voter, query, rows, stage)
            asked = None if against is None else against.numpy()[left]
            found = self.verdict(query.results[rows, :stage], voter.classes, asked, search)
            fooled = found.answered == self.misclassify
            done = found.decided & (~fooled | (stage * FOOLED_DIVISOR >= self.n))
            places = left[done]
            labels[places], scores[torch.from_numpy(places)] = found.labels[done], found.scores[torch.from_numpy(done)]
            left = left[~done]
        if slots is not None:
            self._update_cache(slots, query, affected)
        evaluations = (query.known & ~before).sum(dim=1).cpu()
        return Answers(torch.from_numpy(labels), scores, evaluations)

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

    def _from_cache(
        self, inputs: torch.Tensor, slots: torch.Tensor | None, classes: int
    ) -> tuple[SlotCache, torch.Tensor]:
        """The images with the cached votes that still hold; Bool[b, n]: the copies affected since."""
        shape, device = (len(self.masks), *([classes] if self.verdict.ranks else [])), inputs.device
        if slots is None:
            votes = torch.zeros(len(inputs), *shape, dtype=torch.int16, device=device)
            known = torch.zeros(len(inputs), len(self.masks), dtype=torch.bool, device=device)
            return SlotCache(inputs, votes, known), ~known
        if self._cache is None:
            none = torch.zeros(0, *shape, dtype=torch.int16, device=device)
            self._cache = SlotCache(inputs[:0], none, none.new_zeros(0, len(self.masks), dtype=torch.bool))
        at, before = slots.to(device), len(self._cache.images)
        self._cache = self._cache.grow(slots)
        self._cache.images[at[at >= before]] = inputs[at >= before]
        affected = self._affected(inputs, self._cache.images[at])
        return SlotCache(inputs, self._cache.results[at], self._cache.known[at] & ~affected), affected

    def _classify(self, voter: Voter, query: SlotCache, rows: torch.Tensor, stage: int) -> None:
        """Makes the first `stage` votes of these rows known."""
        pairs = (~query.known[rows, :stage]).nonzero()
        which, mask = rows[pairs[:, 0]], pairs[:, 1]
        read = voter.rankings if self.verdict.ranks else voter.labels
        found = read(query.images, which, torch.zeros_like(mask), mask + ATTACK, self.seed)
        query.results[which, mask] = found.to(torch.int16)
        query.known[which, mask] = True

    def _update_cache(self, slots: torch.Tensor, query: SlotCache, affected: torch.Tensor) -> None:
        """Adds the new votes of unaffected copies: they hold for the cached image as well."""
        assert self._cache is not None
        at = slots.to(query.results.device)
        holds = query.known & ~affected
        kept = holds.unsqueeze(-1) if self.verdict.ranks else holds
        self._cache.results[at] = torch.where(kept, query.results, self._cache.results[at])
        self._cache.known[at] |= holds
        self._last_query = at, query
