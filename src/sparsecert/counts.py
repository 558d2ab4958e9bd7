"""Votes counted: where tensors end and exact arithmetic on integers begins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Tally:
    """How one input's ablated copies were classified: `votes[c]` for class c, `invalid` for nobody (NaN or inf logits).

    `total` is the number of copies, so nothing is ever dropped: votes and invalid add up to it.
    """

    votes: tuple[int, ...]
    invalid: int = 0

    @property
    def total(self) -> int:
        """The number of ablated copies classified."""
        return sum(self.votes) + self.invalid

    def leader(self) -> int:
        """The class with most votes; the lowest-numbered one on a tie."""
        return self.votes.index(max(self.votes))

    def rival(self, label: int) -> int:
        """The most votes any class but `label` can have had: the best other class, and every invalid one.

        Invalid copies voted for nobody. Counting them for the rival is right whatever class they are taken to mean.
        """
        return max((*self.votes[:label], *self.votes[label + 1 :])) + self.invalid


@dataclass(frozen=True, eq=False)
class Counts:
    """A batch of tallies: votes int64[b, classes] and invalid int64[b]."""

    votes: Int64
    invalid: Int64

    def __len__(self) -> int:
        return len(self.votes)

    def __getitem__(self, row: int) -> Tally:
        return Tally(tuple(self.votes[row].tolist()), int(self.invalid[row]))
