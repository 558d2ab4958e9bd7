"""Work for several networks of one shape, in the lanes of one grouped network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from sparsecert.votes.batches import round_up

LANES, MOST_ROWS = 64, 128  # on a GPU, which is used better by large batches
CACHED_ROWS = 8  # elsewhere: so few that what a step makes of them stays in a CPU's cache


@dataclass(frozen=True)
class Lanes:
    """A batch of items, each for one network, in lanes of equal length, each for one network.

    items: int64[rows, lanes], the item at each place. networks: int64[lanes]. real: Bool[rows, lanes], whether the
    place holds an item of its own; the others are padding, and repeat one.
    """

    items: torch.Tensor
    networks: torch.Tensor
    real: torch.Tensor

    @classmethod
    def of(cls, networks: torch.Tensor, on_gpu: bool = False) -> Iterator[Lanes]:
        """Batches of all items, where item i is for networks[i]; a network with many items has several lanes.

        `on_gpu`: large batches, all with the same lanes, and only a few different numbers of rows.
        """
        if not len(networks):
            return
        different = int(networks.max()) + 1
        most, most_rows = (max(LANES, 2 * different), MOST_ROWS) if on_gpu else (2 * different, CACHED_ROWS)
        full = most - different  # lanes, besides one of each network that is not full
        for part in torch.split(networks.argsort(stable=True), full * most_rows):
            rows = -(-len(part) // full)
            if on_gpu:
                yield cls._batch(part, networks[part], min(MOST_ROWS, round_up(rows)), most)
            else:
                yield cls._batch(part, networks[part], rows)

    @classmethod
    def _batch(cls, items: torch.Tensor, networks: torch.Tensor, rows: int, least: int = 0) -> Lanes:
        """Items sorted by network, in lanes of so many rows, and at least so many lanes."""
        counts = torch.bincount(networks)
        lanes_of = -(-counts // rows)
        lanes = max(least, int(lanes_of.sum()))
        place = torch.arange(len(items), device=items.device) - (counts.cumsum(0) - counts)[networks]
        row, lane = place % rows, (lanes_of.cumsum(0) - lanes_of)[networks] + place // rows
        table = items[0].expand(rows, lanes).clone()
        table[row, lane] = items
        real = torch.zeros(rows, lanes, dtype=torch.bool, device=items.device)
        real[row, lane] = True
        of = torch.zeros(lanes, dtype=torch.int64, device=items.device)
        of[lane] = networks
        return cls(table, of, real)
