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
MOST_COMPARED = 1 << 24  # comparisons at once


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
    scores: torch.Tensor, valid: torch.Tensor, label: torch.Tensor, rows: PassRows, above: torch.Tensor
) -> None:
    """Adds to `above`, int64[b, classes], for each input the valid rows that rank the label above each class.

    scores: [rows, classes]; valid: bool[rows], whether a row's scores are finite; label: int64[rows]. Of equal scores
    the lower-numbered class ranks first. The label itself counts every valid row.
    """
    by_class = scores.t().contiguous()
    numbers = torch.arange(len(by_class), device=scores.device)[:, None]
    own = by_class.gather(0, label[None])
    ranked = (own > by_class) | ((own == by_class) & (numbers >= label))
    above[rows.inputs] += _per_input(ranked & valid, rows)


def add_pairs(scores: torch.Tensor, valid: torch.Tensor, rows: PassRows, pairs: torch.Tensor) -> None:
    """`add_above` for every label: pairs is int64[b, classes, classes]. As many labels at once as memory allows."""
    by_class = scores.t().contiguous()
    numbers = torch.arange(len(by_class), device=scores.device)[:, None]
    at_once = max(1, MOST_COMPARED // scores.numel())
    for first in range(0, len(by_class), at_once):
        some = slice(first, first + at_once)
        own = by_class[some, None]
        ranked = (own > by_class) | ((own == by_class) & (numbers >= numbers[some, None]))
        counted = _per_input((ranked & valid).flatten(0, 1), rows)
        pairs[rows.inputs, some] += counted.view(len(counted), -1, len(by_class))


def _per_input(marks: torch.Tensor, rows: PassRows) -> torch.Tensor:
    """int32[inputs, entries]: of bool[entries, rows], how many rows of each input are marked."""
    entries, height = marks.shape
    running = torch.zeros(entries, height + 1, dtype=torch.int32, device=marks.device)
    running[:, 1:] = marks
    running = running.view(-1).cumsum(0, dtype=torch.int32).view(entries, height + 1)  # flat: one fast scan
    return running[:, rows.ends(marks.device)].diff(dim=1).t().contiguous()


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
