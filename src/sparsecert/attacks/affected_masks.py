"""Lines of attempts: images that are nearly alike, so that few copies of the next one are new."""

from __future__ import annotations

import torch

from sparsecert.encodings import Encoding


class Meeting:
    """Which copies may change with an image: those whose masks show a unit in which it differs."""

    def __init__(self, encoding: Encoding, masks: torch.Tensor) -> None:
        self.encoding = encoding
        shown = encoding.seen(masks).T.contiguous()  # [units, masks]
        self._shown = shown.half() if shown.is_cuda else shown.float()

    def __call__(self, images: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        """Bool[b, masks]: the masks whose copies may differ between the two images of a row."""
        altered = self.encoding.altered(images != others)
        return altered.to(self._shown) @ self._shown > 0


def check_slots(slots: torch.Tensor) -> None:
    """Refuses a query in which two images belong to the same line."""
    if len(set(slots.tolist())) != len(slots):
        raise ValueError("two images of one query are in the same slot")
