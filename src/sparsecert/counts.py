"""Vote counts: where tensors end and exact integer arithmetic begins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Tally:
    """How one input's ablated copies were classified: `votes[c]` for class c, `invalid` for none (NaN or inf logits).

    votes and invalid add up to `total`, the number of copies: nothing is dropped.
    """

    votes: tuple[int, ...]
    invalid: int = 0

    @property
    def total(self) -> int:
        """The number of ablated copies classified."""
        return sum(self.votes) + self.invalid

    def leader(self) -> int:
        """The class with the most votes; the lowest on a tie."""
        return self.votes.index(max(self.votes))

    def rival(self, label: int) -> int:
        """An upper bound on the votes of any class but `label`: the best other class plus all invalid copies.

        Counting invalid copies for the rival is conservative, whatever class they are taken to mean.
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
