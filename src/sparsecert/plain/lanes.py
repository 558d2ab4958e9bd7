"""Work for several networks of one shape, in the lanes of one grouped network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from sparsecert.votes.batches import pad_batch

LANES, FEW_ROWS, MOST_ROWS = 64, 8, 128


def is_gpu(device: torch.device) -> bool:
    """Whether each new shape costs the device a preparation."""
    return device.type == "cuda"


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
    def of(cls, networks: torch.Tensor) -> Iterator[Lanes]:
        """Batches of all items, where item i is for networks[i]; a network with many items has several lanes.

        A GPU, which prepares anew for each shape, gets one number of lanes, and one of few numbers of rows.
        """
        if not len(networks):
            return
        different = int(networks.max()) + 1
        lanes = max(LANES, 2 * different)
        for part in torch.split(networks.argsort(stable=True), (lanes - different) * MOST_ROWS):
            yield cls._batch(part, networks[part], lanes)

    @classmethod
    def _batch(cls, items: torch.Tensor, networks: torch.Tensor, lanes: int) -> Lanes:
        """Items sorted by network, in the fewest rows for which `lanes` lanes suffice."""
        counts, few_shapes = torch.bincount(networks), is_gpu(items.device)
        rows = FEW_ROWS if few_shapes else 1
        while int((lanes_of := -(-counts // rows)).sum()) > lanes:
            rows = pad_batch(rows + 1, MOST_ROWS, items.device)
        lanes = lanes if few_shapes else int(lanes_of.sum())
        place = torch.arange(len(items), device=items.device) - (counts.cumsum(0) - counts)[networks]
        row, lane = place % rows, (lanes_of.cumsum(0) - lanes_of)[networks] + place // rows
        table = items[0].expand(rows, lanes).clone()
        table[row, lane] = items
        real = torch.zeros(rows, lanes, dtype=torch.bool, device=items.device)
        real[row, lane] = True
        of = torch.zeros(lanes, dtype=torch.int64, device=items.device)
        of[lane] = networks
        return cls(table, of, real)
