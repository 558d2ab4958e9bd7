"""Vote counts: where tensors end and exact integer arithmetic begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int16 = npt.NDArray[np.int16]
Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

UNKNOWN = -1  # the true class of an input that has no label


@dataclass(frozen=True)
class Tally:
    """How one input's ablated copies were classified: `votes[c]` for class c, `invalid` for none (NaN or inf logits).

    votes and invalid add up to `total`, the number of copies: nothing is dropped. Where copies were asked to rank the
    classes, `above[c]` counts those that rank the chosen class above c, and for the chosen class itself the valid ones;
    `chosen` is that class, where these votes chose it.
    """

    votes: tuple[int, ...]
    invalid: int = 0
    above: tuple[int, ...] | None = None
    chosen: int | None = None

    @property
    def total(self) -> int:
        """The number of ablated copies classified."""
        return sum(self.votes) + self.invalid

    def leader(self) -> int:
        """The class that these votes chose: the one with the most, the lowest on a tie, unless they chose by pairs."""
        return self.votes.index(max(self.votes)) if self.chosen is None else self.chosen

    def rival(self, label: int) -> int:
        """An upper bound on the votes of any class but `label`: the best other class plus all invalid copies.

        Counting invalid copies for the rival is conservative, whatever class they are taken to mean.
        """
        return max((*self.votes[:label], *self.votes[label + 1 :])) + self.invalid


@dataclass(frozen=True, eq=False)
class Counts:
    """A batch of tallies: votes int64[b, classes] and invalid int64[b]; where counted, above int64[b, classes] and
    chosen int64[b].
    """

    votes: Int64
    invalid: Int64
    above: Int64 | None = None
    chosen: Int64 | None = None

    def __len__(self) -> int:
        return len(self.votes)

    def __getitem__(self, row: int) -> Tally:
        above = None if self.above is None else tuple(self.above[row].tolist())
        chosen = None if self.chosen is None else int(self.chosen[row])
        return Tally(tuple(self.votes[row].tolist()), int(self.invalid[row]), above, chosen)

    @property
    def total(self) -> Int64:
        """int64[b]: the number of copies of each input."""
        total: Int64 = self.votes.sum(axis=1) + self.invalid
        return total

    @property
    def labels(self) -> Int64:
        """int64[b]: the class that each input's votes chose."""
        return self.votes.argmax(axis=1) if self.chosen is None else self.chosen

    def choosing_by(self, pairs: Int64 | None) -> Counts:
        """These votes with the class that they choose by pairs: the one whose smallest count against another class is
        largest, the lowest on a tie.

        pairs: int64[b, classes, classes], the copies that rank the first class above the second one; the valid ones on
        the diagonal. None where there are too many classes to count them all (`votes.pairs`): the class with the most
        votes, and `above` is not known. A certificate may use any class that its estimation votes did not choose.
        """
        if pairs is None:
            return Counts(self.votes, self.invalid, None, self.votes.argmax(axis=1))
        chosen: Int64 = pairs.min(axis=2).argmax(axis=1)
        return Counts(self.votes, self.invalid, pairs[np.arange(len(pairs)), chosen], chosen)

    def take(self, rows: Int64) -> Counts:
        """The counts of these inputs, copied."""
        above, chosen = (None if known is None else known[rows] for known in (self.above, self.chosen))
        return Counts(self.votes[rows], self.invalid[rows], above, chosen)

    @property
    def arrays(self) -> list[Int64]:
        """The arrays that are known."""
        return [known for known in (self.votes, self.invalid, self.above, self.chosen) if known is not None]

    @classmethod
    def joined(cls, parts: Sequence[Counts]) -> Counts:
        """The counts of several batches, which all have the same arrays, as one."""
        above, chosen = ([getattr(part, name) for part in parts] for name in ("above", "chosen"))
        return cls(
            np.concatenate([part.votes for part in parts]),
            np.concatenate([part.invalid for part in parts]),
            *(None if some[0] is None else np.concatenate(some) for some in (above, chosen)),
        )

    @classmethod
    def of(cls, tally: Tally) -> Counts:
        """The counts of one input, as a batch."""
        above = None if tally.above is None else np.array([tally.above], dtype=np.int64)
        chosen = None if tally.chosen is None else np.array([tally.chosen], dtype=np.int64)
        return cls(np.array([tally.votes], dtype=np.int64), np.array([tally.invalid], dtype=np.int64), above, chosen)
