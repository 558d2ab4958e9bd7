"""Which masks a perturbation affects: the other ablated copies of the image need not be classified again."""

from __future__ import annotations

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


def check_slots(slots: torch.Tensor) -> None:
    """Refuses a query in which two images belong to the same search."""
    if len(set(slots.tolist())) != len(slots):
        raise ValueError("two images of one query are in the same slot")
