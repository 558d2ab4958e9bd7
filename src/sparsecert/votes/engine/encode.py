"""Encodes copies by selecting, unit by unit, between the fully retained and the fully ablated input."""

from __future__ import annotations

import torch

from sparsecert.encodings.encoding import Encoding
from sparsecert.votes.engine.layout import affine_is_of_encode


def is_unitwise(encoding: Encoding, channels: int) -> bool:
    """Whether each encoded value depends on its own unit alone, so that selecting is equivalent to encoding."""
    return affine_is_of_encode(type(encoding)) and encoding.affine(channels) is not None


def copies(
    encoding: Encoding, inputs: torch.Tensor, which: torch.Tensor, masks: torch.Tensor, dtype: torch.dtype
) -> torch.Tensor:
    """[rows, height, width, channels] of `dtype`: row r is inputs[which[r]] ablated by masks[r].

    Inputs are encoded once, not once per copy.
    """
    first = int(which.min())
    some = inputs[first : int(which.max()) + 1]
    every = torch.ones(1, masks.shape[1], dtype=torch.bool, device=masks.device)
    shown, null = (encoding(some, mask).to(dtype).permute(0, 2, 3, 1).contiguous() for mask in (every, ~every))
    retained = masks.view(len(masks), *shown.shape[1:3], 1)
    return torch.where(retained, shown[which - first], null[:1])
