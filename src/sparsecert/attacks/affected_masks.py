"""Which masks a perturbation affects, and a cache: other ablated copies of the image need not be classified again."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sparsecert.encodings import Encoding


class AffectedMasks:
    """Finds the masks that show a unit in which two images differ: only their copies may differ."""

    def __init__(self, encoding: Encoding, masks: torch.Tensor) -> None:
        self.encoding = encoding
        shown = encoding.seen(masks).T.contiguous()  # [units, masks]
        self._shown = shown.half() if shown.is_cuda else shown.float()

    def __call__(self, images: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        """Bool[b, masks]: the masks whose copies may differ between images[i] and others[i]."""
        perturbed = self.encoding.perturbed(images != others)
        return perturbed.to(self._shown) @ self._shown > 0


@dataclass
class SlotCache:
    """For each slot (search) the image it has reached, and what its copies gave where that is `known`."""

    images: torch.Tensor  # float[slots, ...]
    results: torch.Tensor  # int16[slots, copies, ...]: votes or ranks
    known: torch.Tensor  # bool[slots, copies], or bool[slots] where all copies are known or none is

    def grow(self, slots: torch.Tensor) -> SlotCache:
        """The cache, enlarged to hold these slots; refuses a query in which two images belong to the same search."""
        if len(set(slots.tolist())) != len(slots):
            raise ValueError("two images of one query are in the same slot")
        more = int(slots.max()) + 1 - len(self.images)
        parts = self.images, self.results, self.known
        return self if more <= 0 else SlotCache(*(torch.cat((p, p.new_zeros(more, *p.shape[1:]))) for p in parts))

    def put(self, at: torch.Tensor, query: SlotCache, rows: torch.Tensor) -> None:
        """Fills the slots `at` from these rows of a query."""
        self.images[at], self.results[at], self.known[at] = query.images[rows], query.results[rows], query.known[rows]
