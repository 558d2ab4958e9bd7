"""A smoothed classifier that is asked about many images that are nearly alike, at a fraction of the cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from sparsecert.attacks.affected_masks import Meeting, check_slots
from sparsecert.attacks.defenders import ABSTAINS, Answers, SmoothedDefender
from sparsecert.attacks.early_stopping import Bool, Int64, least_leads, settled
from sparsecert.bounds import corrected_alpha
from sparsecert.errors import InputError, whole
from sparsecert.schemes import ATTACK
from sparsecert.smoothed import Smoothed
from sparsecert.votes.voter import Voter

LOOKS = 256, 64, 16, 8, 4, 2, 1  # after n / 256 copies, n / 64, ...
TO_BE_FOOLED = 16  # n / 16 copies at least, as an attack goes on from where it succeeded, and would suit few to itself
MOST_COPIES = 1 << 20  # all their masks are held in memory


@dataclass
class Lines:
    """Where each line of attempts stands. Copies whose masks met a change since they were classified are not known."""

    images: torch.Tensor  # float[lines, ...]
    votes: torch.Tensor  # int16[lines, n]
    known: torch.Tensor  # bool[lines, n]

    def reaching(self, slots: int) -> Lines:
        """The same with room for so many."""
        more = slots - len(self.images)
        return self if more <= 0 else Lines(*(_longer(part, more) for part in (self.images, self.votes, self.known)))


class CommonMasks(SmoothedDefender):
    """Predicts as `SmoothedDefender` does, but with the same `n` masks for every query, of which it uses what it needs.

    A copy looks the same before and after a change that its mask does not meet. So within a line of attempts (a slot)
    only the copies whose masks met a pixel that was changed since are classified again: k / d of them for one pixel,
    5.7% on MNIST at k = 45. With `error` = 0 and no `tie` the answer is exactly the one that all `n` copies give.

    Where the asker wants to know of one label only (`against`), it is decided after the first n / 16, n / 8, n / 4 or
    n / 2 copies if these settle it: see `settled`, a test that is wrong with probability at most `error` at each look.
    That the label is answered, so that the attempt failed, may be settled after n / 256 or n / 64.

    What an attack finds is tuned to these masks: it has to be judged again by a `SmoothedDefender`, which draws fresh
    ones. For that to go well an attack aims further: with `tie`, within a line of attempts or about one label, a class
    is answered if it leads at all, not only if by enough.
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
    ) -> None:
        n = whole("n", n, 1, MOST_COPIES, f"{MOST_COPIES} where all queries have the same masks")
        super().__init__(smoothed, n, alpha, seed, copies)
        if not 0 <= error < 0.5:
            raise InputError(f"error must be from 0 (all copies, always) to below 0.5, got {error!r}")
        self.error = error
        self.needs = least_leads(n, corrected_alpha(alpha, smoothed.scheme, n))
        self.leads = np.arange(n + 1) // 2 + 1 if tie else self.needs
        self.masks = smoothed.scheme.masks(seed, [0], range(ATTACK, ATTACK + n), smoothed.device)[0]
        self.looks = [-(-n // part) for part in (LOOKS if error else (1,))]
        self._met = Meeting(smoothed.encoding, self.masks)
        self._lines: Lines | None = None
        self._last: tuple[torch.Tensor, Lines] | None = None

    def answers(
        self, images: torch.Tensor, slots: torch.Tensor | None = None, against: torch.Tensor | None = None
    ) -> Answers:
        """Scores are shares of the votes looked at. The first image of a slot is where its line begins."""
        inputs = self.smoothed.check(images).to(self.smoothed.device)
        voter = self._voter = self._voter or self.smoothed.voter(inputs[:1])
        asked, met = self._begun(inputs, slots)
        before = asked.known.clone()
        labels, tables = np.empty(len(images), dtype=np.int64), np.empty((len(images), voter.classes))
        left, search = np.arange(len(images)), slots is not None or against is not None
        for look in self.looks if against is not None else self.looks[-1:]:
            rows = torch.from_numpy(left).to(inputs.device)
            self._classify(voter, asked, rows, look)
            table = counted(asked.votes[rows, :look], voter.classes)
            own = _leaders(table) if against is None else against.numpy()[left]
            done, answered = self._decided(table, own, look, self.leads if search else self.needs)
            done &= answered | (look * TO_BE_FOOLED >= self.n)
            places = left[done]
            others = np.where(_leaders(table) == own, ABSTAINS, _leaders(table))
            labels[places] = np.where(answered, own, ABSTAINS if against is None else others)[done]
            tables[places] = table[done, :-1] / look
            left = left[~done]
        if slots is not None:
            self._learn(slots, asked, met)
        evaluations = (asked.known & ~before).sum(dim=1).cpu()
        return Answers(torch.from_numpy(labels), torch.from_numpy(tables).float(), evaluations)

    @property
    def wavers(self) -> bool:
        """Its masks are always the same."""
        return False

    def went_on(self, places: torch.Tensor) -> None:
        if self._last is None:
            return
        slots, asked = self._last
        assert self._lines is not None
        places = places.to(slots.device)
        to = slots[places]
        self._lines.images[to] = asked.images[places]
        self._lines.votes[to] = asked.votes[places]
        self._lines.known[to] = asked.known[places]

    def _begun(self, inputs: torch.Tensor, slots: torch.Tensor | None) -> tuple[Lines, torch.Tensor]:
        """The images with what is known of their copies from where their lines stand; Bool[b, n]: which are met."""
        shape, device = (len(inputs), len(self.masks)), inputs.device
        if slots is None:
            votes = torch.zeros(shape, dtype=torch.int16, device=device)
            return Lines(inputs, votes, votes.bool()), ~votes.bool()
        if self._lines is None:
            none = torch.zeros(0, shape[1], dtype=torch.int16, device=device)
            self._lines = Lines(inputs[:0], none, none.bool())
        check_slots(slots)
        at, before = slots.to(device), len(self._lines.images)
        self._lines = self._lines.reaching(int(slots.max()) + 1)
        self._lines.images[at[at >= before]] = inputs[at >= before]
        met = self._met(inputs, self._lines.images[at])
        return Lines(inputs, self._lines.votes[at], self._lines.known[at] & ~met), met

    def _classify(self, voter: Voter, asked: Lines, rows: torch.Tensor, look: int) -> None:
        """Makes the first `look` votes of these rows known."""
        pairs = (~asked.known[rows, :look]).nonzero()
        which, mask = rows[pairs[:, 0]], pairs[:, 1]
        found = voter.labels(asked.images, which, torch.zeros_like(mask), mask + ATTACK, self.seed)
        asked.votes[which, mask] = found.to(torch.int16)
        asked.known[which, mask] = True

    def _decided(self, table: Int64, own: Int64, look: int, needs: Int64) -> tuple[Bool, Bool]:
        rows = np.arange(len(table))
        others = table[:, :-1].copy()
        others[rows, own] = -1
        rival = others.max(axis=1) + table[:, -1]
        return settled(table[rows, own], rival, look, needs, self.error, rivals=others.shape[1] - 1)

    def _learn(self, slots: torch.Tensor, asked: Lines, met: torch.Tensor) -> None:
        """What was found of copies that do not meet the change holds for where the line stands as well."""
        assert self._lines is not None
        at = slots.to(asked.votes.device)
        holds = asked.known & ~met
        self._lines.votes[at] = torch.where(holds, asked.votes, self._lines.votes[at])
        self._lines.known[at] |= holds
        self._last = at, asked


def counted(votes: torch.Tensor, classes: int) -> Int64:
    """int64[b, classes + 1], the last for votes that are not valid."""
    table = torch.zeros(len(votes), classes + 1, dtype=torch.int64, device=votes.device)
    return table.scatter_add_(1, votes.long(), torch.ones_like(votes, dtype=torch.int64)).cpu().numpy()


def _leaders(table: Int64) -> Int64:
    leaders: Int64 = table[:, :-1].argmax(axis=1)
    return leaders


def _longer(part: torch.Tensor, more: int) -> torch.Tensor:
    return torch.cat((part, part.new_zeros(more, *part.shape[1:])))
