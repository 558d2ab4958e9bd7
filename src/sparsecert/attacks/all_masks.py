"""The vote of all masks of a fixed set under attack: a changed pixel costs only the copies that show it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.utils.checkpoint import checkpoint

from sparsecert.attacks.affected_masks import Meeting, check_slots
from sparsecert.attacks.defenders import Answers, Defender, refuse_protected
from sparsecert.certificates.plurality import first_choices
from sparsecert.procedures.exact import fixed, rule_named
from sparsecert.registry import RULES
from sparsecert.smoothed import Smoothed
from sparsecert.votes.eval_mode import in_eval_mode
from sparsecert.votes.voter import Voter


@dataclass
class RankedLines:
    """Where each line of attempts stands, and how all copies of that image rank the classes, once it is `begun`."""

    images: torch.Tensor  # float[lines, ...]
    ranks: torch.Tensor  # int16[lines, masks, classes]
    begun: torch.Tensor  # bool[lines]

    def reaching(self, slots: int) -> RankedLines:
        """The same with room for so many."""
        more = slots - len(self.images)
        parts = self.images, self.ranks, self.begun
        return self if more <= 0 else RankedLines(*(torch.cat((p, p.new_zeros(more, *p.shape[1:]))) for p in parts))

    def put(self, at: torch.Tensor, others: RankedLines, rows: torch.Tensor) -> None:
        """Makes the lines `at` stand where these rows of others do."""
        self.images[at], self.ranks[at], self.begun[at] = others.images[rows], others.ranks[rows], True


class AllMasks(Defender):
    """Answers the winner of the vote of exactly all masks of a fixed set: the classifier that `Exact` certifies.

    It never abstains, and nothing about it is left to chance, so that what fools it once always does. It assumes what
    the certificate assumes: that the model gives a copy the same scores whatever batch it is in.

    A copy looks the same before and after a change that its mask does not meet. So within a line of attempts (a slot)
    only the copies whose masks met a pixel that was changed since are classified again: one, for one pixel, where the
    masks are a partition. Gradients are those of the base classifier's probabilities, averaged over all masks.
    """

    def __init__(self, smoothed: Smoothed, rule: str = "run-off") -> None:
        refuse_protected(smoothed)
        rule_named(rule)
        self.smoothed, self.rule = smoothed, rule
        self.masks = fixed(smoothed.scheme).all_masks(smoothed.device)
        self._met = Meeting(smoothed.encoding, self.masks)
        self._voter: Voter | None = None
        self._lines: RankedLines | None = None
        self._last: tuple[torch.Tensor, RankedLines] | None = None

    def answers(
        self, images: torch.Tensor, slots: torch.Tensor | None = None, against: torch.Tensor | None = None
    ) -> Answers:
        """Scores are shares of the votes, see `standings`. The first image of a slot is where its line begins."""
        inputs = self.smoothed.check(images).to(self.smoothed.device)
        voter = self._looked_at(inputs)
        asked, met = self._begun(inputs, slots, voter.classes)
        rows, masks = met.nonzero().T
        asked.ranks[rows, masks] = voter.ranks(inputs, rows, masks)
        self._last = None if slots is None else self._remembered(slots.to(inputs.device), asked)
        votes = standings(asked.ranks, self.rule).cpu()
        return Answers(votes.argmax(dim=1), votes.float() / len(self.masks), met.sum(dim=1).cpu())

    def went_on(self, places: torch.Tensor) -> None:
        if self._last is None:
            return
        slots, asked = self._last
        assert self._lines is not None
        places = places.to(slots.device)
        self._lines.put(slots[places], asked, places)

    def scores(self, images: torch.Tensor) -> torch.Tensor:
        """Mean probabilities of the base classifier over all masks.

        Of more copies than fit at once only the probabilities are kept; gradients run the model on them again.
        """
        inputs = images.to(self.smoothed.device, self.smoothed.check(images).dtype)
        at_once = max(1, self._looked_at(inputs.detach()).rows // len(inputs))
        parts = torch.split(self.masks, at_once)
        if len(parts) == 1:
            return (self._probabilities(inputs, self.masks) / len(self.masks)).cpu()
        sums = [checkpoint(self._probabilities, inputs, part, use_reentrant=False) for part in parts]
        return (torch.stack(sums).sum(dim=0) / len(self.masks)).cpu()

    @property
    def evaluations_of_scores(self) -> int:
        """One for each of the masks."""
        return len(self.masks)

    def _looked_at(self, inputs: torch.Tensor) -> Voter:
        """The model, ready to vote; looked at once."""
        self._voter = self._voter or self.smoothed.voter(inputs[:1])
        return self._voter

    def _probabilities(self, inputs: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
        """float[b, classes]: the sum over these masks."""
        copies = self.smoothed.encoding(inputs.repeat_interleave(len(masks), dim=0), masks.repeat(len(inputs), 1))
        with in_eval_mode(self.smoothed.model):
            shares = self.smoothed.model(copies).float().softmax(dim=1)
        return shares.view(len(inputs), len(masks), -1).sum(dim=1)

    def _begun(
        self, inputs: torch.Tensor, slots: torch.Tensor | None, classes: int
    ) -> tuple[RankedLines, torch.Tensor]:
        """The images with the ranks of where their lines stand; Bool[b, masks]: which copies are to be ranked anew."""
        device, shape = inputs.device, (len(self.masks), classes)
        everything = torch.ones(len(inputs), len(self.masks), dtype=torch.bool, device=device)
        if slots is None:
            ranks = torch.zeros(len(inputs), *shape, dtype=torch.int16, device=device)
            return RankedLines(inputs, ranks, everything[:, 0]), everything
        check_slots(slots)
        if self._lines is None:
            none = torch.zeros(0, *shape, dtype=torch.int16, device=device)
            self._lines = RankedLines(inputs[:0], none, everything[:0, 0])
        self._lines = self._lines.reaching(int(slots.max()) + 1)
        at = slots.to(device)
        met = torch.where(self._lines.begun[at, None], self._met(inputs, self._lines.images[at]), everything)
        return RankedLines(inputs, self._lines.ranks[at], everything[:, 0]), met

    def _remembered(self, slots: torch.Tensor, asked: RankedLines) -> tuple[torch.Tensor, RankedLines]:
        """What was asked, and in which slots; lines that are new begin there."""
        assert self._lines is not None
        new = (~self._lines.begun[slots]).nonzero()[:, 0]
        self._lines.put(slots[new], asked, new)
        return slots, asked


def standings(ranks: torch.Tensor, rule: str) -> torch.Tensor:
    """int64[b, classes]: the votes of each class; the largest number, of equal ones the first, is the winner's.

    ranks: int16[b, masks, classes], all 0 for a copy without an opinion. By a rule that does not say how (see `Rule`),
    the votes are first choices, and the winner has one more than any other.
    """
    counted = RULES[rule].standings
    if counted is not None:
        return counted(ranks)
    votes = first_choices(ranks)
    winners = torch.tensor([RULES[rule].winner(one) for one in ranks.cpu().numpy()], device=votes.device)
    return votes.scatter(1, winners[:, None], votes.amax(dim=1, keepdim=True) + 1)
