"""Counting, on the device, how often a copy ranks one class above another one.

The copies of a forward pass are consecutive, and so are those of each input. So a count is a difference of two entries
of a running sum over the rows: no atomic additions of many rows to few addresses, and nothing for the host to wait for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from sparsecert.counts import Counts, Int64

MOST_TABLED = 64  # classes that are all counted against each other


@dataclass(frozen=True)
class PassRows:
    """The rows of one forward pass that count: `rows` copies from number `first` on, `draws` consecutive ones of each
    input. Any later rows of the pass are padding.
    """

    first: int
    rows: int
    draws: int

    @property
    def inputs(self) -> slice:
        """The inputs with copies in this pass."""
        return slice(self.first // self.draws, (self.first + self.rows - 1) // self.draws + 1)

    def ends(self, device: torch.device) -> torch.Tensor:
        """int64[inputs + 1]: the row at which the copies of each of these inputs start, and last where all end."""
        found, draws = self.inputs, self.draws
        starts = torch.arange(found.start * draws, found.stop * draws + 1, draws, device=device)
        return (starts - self.first).clamp_(0, self.rows)


def add_above(
    scores: torch.Tensor, valid: torch.Tensor, label: torch.Tensor | int, rows: PassRows, above: torch.Tensor
) -> None:
    """Adds to `above`, int64[b, classes], for each input the valid rows that rank the label above each class.

    scores: [rows, classes]; valid: bool[rows], whether a row's scores are finite; label: int64[rows], or one class for
    all. Of equal scores the lower-numbered class ranks first. The label itself counts every valid row.
    """
    device, (height, classes) = scores.device, scores.shape
    numbers = torch.arange(classes, device=device)
    if isinstance(label, int):
        own, before = scores[:, label, None], numbers >= label
    else:
        own, before = scores.gather(1, label[:, None]), numbers >= label[:, None]
    ranked = (own > scores) | ((own == scores) & before)
    marks = torch.zeros(classes, height + 1, dtype=torch.int32, device=device)
    marks[:, 1:] = (ranked & valid[:, None]).t()
    running = marks.view(-1).cumsum(0, dtype=torch.int32).view(classes, height + 1)  # flat: one fast scan
    above[rows.inputs] += running[:, rows.ends(device)].diff(dim=1).t()


def add_pairs(scores: torch.Tensor, valid: torch.Tensor, rows: PassRows, pairs: torch.Tensor) -> None:
    """`add_above` for every label: pairs is int64[b, classes, classes]."""
    for label in range(pairs.shape[1]):
        add_above(scores, valid, label, rows, pairs[:, label])


@dataclass(frozen=True)
class SelectionVotes:
    """The votes that choose the class by pairs, on the device while they are being counted.

    votes: int64[b, classes + 1], the last of each input being invalid; pairs: int64[b, classes, classes], or None for
    more than MOST_TABLED classes. `fetch` waits for both: the counts, and the pairs (see `Counts.choosing_by`).
    """

    votes: torch.Tensor
    pairs: torch.Tensor | None
    fetch: Callable[[], tuple[Counts, Int64 | None]]

    def labels(self) -> torch.Tensor:
        """int64[b]: the classes chosen, on the device; by the same rule as `Counts.choosing_by`."""
        if self.pairs is None:
            return self.votes[:, :-1].argmax(dim=1)
        return self.pairs.amin(dim=2).argmax(dim=1)
