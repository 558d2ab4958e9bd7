"""The vote of all masks of a fixed set under attack; only copies that show a changed pixel are classified again."""

from __future__ import annotations

import torch
from torch.utils.checkpoint import checkpoint

from sparsecert.attacks.affected_masks import AffectedMasks, SlotCache
from sparsecert.attacks.defenders import Answers, Defender, check_unprotected, probabilities
from sparsecert.certificates.plurality import first_choice_votes
from sparsecert.procedures.exact import Exact, require_fixed_masks
from sparsecert.registry import RULES
from sparsecert.smoothed import Smoothed
from sparsecert.votes.voter import Voter


class AllMasks(Defender):
    """Answers the winner of the vote of exactly all masks of a fixed set: the classifier that `Exact` certifies.

    It is deterministic and never abstains. Like the certificate, it assumes that the model scores a copy the same in
    every batch.

    Within a search (a slot) only copies whose masks show a pixel changed since are classified again: one per pixel
    where the masks are a partition. Gradients are those of the base classifier's probabilities, averaged over all
    masks.
    """

    def __init__(self, smoothed: Smoothed, rule: str | None = None) -> None:
        check_unprotected(smoothed)
        scheme = require_fixed_masks(smoothed.scheme)
        self.smoothed, self.rule = smoothed, Exact(rule).elects_by(scheme)
        self.masks = scheme.all_masks(smoothed.device)
        self._affected = AffectedMasks(smoothed.encoding, self.masks)
        self._voter: Voter | None = None
        self._cache: SlotCache | None = None
        self._last_query: tuple[torch.Tensor, SlotCache] | None = None

    def answers(
        self, images: torch.Tensor, slots: torch.Tensor | None = None, against: torch.Tensor | None = None
    ) -> Answers:
        """Scores are shares of the votes, see `standings`."""
        inputs = self.smoothed.check(images).to(self.smoothed.device)
        voter = self._probed(inputs)
        query, affected = self._from_cache(inputs, slots, voter.classes)
        rows, masks = affected.nonzero().T
        query.results[rows, masks] = voter.ranks(inputs, rows, masks)
        self._last_query = None if slots is None else self._remember(slots.to(inputs.device), query)
        votes = standings(query.results, self.rule).cpu()
        return Answers(votes.argmax(dim=1), votes.float() / len(self.masks), affected.sum(dim=1).cpu())

    def accept(self, places: torch.Tensor) -> None:
        if self._last_query is None:
            return
        slots, query = self._last_query
        assert self._cache is not None
        places = places.to(slots.device)
        self._cache.put(slots[places], query, places)

    def scores(self, images: torch.Tensor) -> torch.Tensor:
        """Mean probabilities of the base classifier over all masks.

        Where the copies do not fit into memory at once, activations are recomputed for gradients (checkpointing).
        """
        inputs = images.to(self.smoothed.device, self.smoothed.check(images).dtype)
        at_once = max(1, self._probed(inputs.detach()).rows // len(inputs))
        parts = torch.split(self.masks, at_once)
        if len(parts) == 1:
            return (self._probabilities(inputs, self.masks) / len(self.masks)).cpu()
        sums = [checkpoint(self._probabilities, inputs, part, use_reentrant=False) for part in parts]
        return (torch.stack(sums).sum(dim=0) / len(self.masks)).cpu()

    @property
    def evaluations_of_scores(self) -> int:
        return len(self.masks)

    def _probed(self, inputs: torch.Tensor) -> Voter:
        """The model, ready to vote; probed on first use."""
        self._voter = self._voter or self.smoothed.voter(inputs[:1])
        return self._voter

    def _probabilities(self, inputs: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
        """float[b, classes]: the sum over these masks."""
        return probabilities(self.smoothed, inputs, masks).sum(dim=1)

    def _from_cache(
        self, inputs: torch.Tensor, slots: torch.Tensor | None, classes: int
    ) -> tuple[SlotCache, torch.Tensor]:
        """The images with the cached ranks of their slots; Bool[b, masks]: which copies must be ranked again."""
        device, shape = inputs.device, (len(self.masks), classes)
        everything = torch.ones(len(inputs), len(self.masks), dtype=torch.bool, device=device)
        if slots is None:
            ranks = torch.zeros(len(inputs), *shape, dtype=torch.int16, device=device)
            return SlotCache(inputs, ranks, everything[:, 0]), everything
        if self._cache is None:
            none = torch.zeros(0, *shape, dtype=torch.int16, device=device)
            self._cache = SlotCache(inputs[:0], none, everything[:0, 0])
        self._cache = self._cache.grow(slots)
        at = slots.to(device)
        stale = torch.where(self._cache.known[at, None], self._affected(inputs, self._cache.images[at]), everything)
        return SlotCache(inputs, self._cache.results[at], everything[:, 0]), stale

    def _remember(self, slots: torch.Tensor, query: SlotCache) -> tuple[torch.Tensor, SlotCache]:
        """Slots and query, for `accept`; fills slots that are new."""
        assert self._cache is not None
        new = (~self._cache.known[slots]).nonzero()[:, 0]
        self._cache.put(slots[new], query, new)
        return slots, query


def standings(ranks: torch.Tensor, rule: str) -> torch.Tensor:
    """int64[b, classes]: the votes of each class; the winner is the first of those with the most.

    ranks: int16[b, masks, classes], all 0 for an invalid copy. Where the rule has no `standings` (see `Rule`), the
    votes are first choices, and the winner gets one more than any other.
    """
    if (count_votes := RULES[rule].standings) is not None:
        return count_votes(ranks)
    votes = first_choice_votes(ranks)
    winners = torch.from_numpy(RULES[rule].winners(ranks.cpu().numpy())).to(votes.device)
    return votes.scatter(1, winners[:, None], votes.amax(dim=1, keepdim=True) + 1)
