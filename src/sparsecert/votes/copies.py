"""The ablated copies of a batch of inputs, which procedures take votes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sparsecert.progress import OnProgress, ignore

if TYPE_CHECKING:
    import torch

    from sparsecert.counts import Counts, Int16, Int64
    from sparsecert.votes.pairs import SelectionVotes
    from sparsecert.votes.voter import Voter


@dataclass(frozen=True)
class Copies:
    """Every ablated copy of `inputs`, Float[b, ...]: seed, example and draw decide its mask, `voter` classifies it.

    `examples` are the b numbers of the inputs, their indices in the data set. With `chosen`, int64[b], a class for each
    input, votes are also counted against each class (`Counts.above`).
    """

    voter: Voter
    inputs: torch.Tensor
    examples: Sequence[int] | Int64
    seed: int = 0
    on_progress: OnProgress = ignore
    chosen: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.inputs)

    def begin_count(self, purpose: int, first: int, last: int) -> Callable[[], Counts]:
        """Starts the vote of draws first, ..., last - 1 for this purpose; call the result for the counts."""
        return self.voter.begin_count(self, range(purpose + first, purpose + last))

    def begin_selection(self, purpose: int, first: int, last: int) -> SelectionVotes:
        """Starts the same vote to choose a class by pairs. Its `labels` are there once the procedure has yielded."""
        return self.voter.begin_selection(self, range(purpose + first, purpose + last))

    def begin_ranks(self, masks: int) -> Callable[[], Int16]:
        """Starts ranking the classes by each mask of a fixed set; call the result for the ranks."""
        return self.voter.begin_ranks(self, masks)

    def on_device(self) -> Copies:
        """The same with the inputs on the voter's device."""
        from sparsecert.votes.batches import to_device

        return replace(self, inputs=to_device(self.inputs, self.voter.device))

    def comparing(self, labels: torch.Tensor | Int64) -> Copies:
        """The same, with these classes chosen."""
        import torch

        from sparsecert.votes.batches import to_device

        return replace(self, chosen=to_device(torch.as_tensor(labels), self.voter.device))

    def split(self, size: int) -> Iterator[tuple[slice, Copies]]:
        """The rows and the copies of the first `size` inputs, of the next ones, and so on."""
        for start in range(0, len(self), size):
            rows = slice(start, start + size)
            chosen = None if self.chosen is None else self.chosen[rows]
            yield rows, replace(self, inputs=self.inputs[rows], examples=self.examples[rows], chosen=chosen)

    def of(self, rows: Int64) -> Copies:
        """The copies of these inputs alone."""
        import numpy as np
        import torch

        from sparsecert.votes.batches import to_device

        which = to_device(torch.from_numpy(rows), self.inputs.device)
        examples = np.asarray(self.examples)[rows]
        chosen = None if self.chosen is None else self.chosen[to_device(which, self.chosen.device)]
        return replace(self, inputs=self.inputs[which], examples=examples, chosen=chosen)
