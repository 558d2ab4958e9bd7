"""Random crops and flips of images held as bytes, before ablation."""

from __future__ import annotations

import torch

from sparsecert.schemes import AUGMENTATION
from sparsecert.schemes.philox import words

PADDING = 4


def moves(seed: int, examples: torch.Tensor, epoch: int, padding: int = PADDING) -> torch.Tensor:
    """int64[b, 3]: by how much each image is moved down and right, -padding to padding, and whether it is mirrored.

    A pure function of seed, image and epoch: the same on every device, whatever else is in the batch.
    """
    high, low = words(seed, examples, torch.full_like(examples, AUGMENTATION + epoch), 2)
    down, right = ((word * (2 * padding + 1) >> 32) - padding for word in (high[:, 0], low[:, 0]))
    return torch.stack((down, right, high[:, 1] & 1), dim=1)


def moved(images: torch.Tensor, chosen: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    """images[chosen], each mirrored left to right where by[:, 2] is 1, and moved by by[:, 0:2]; zeros come in."""
    _, channels, height, width = images.shape
    device = images.device
    rows = torch.arange(height, device=device) - by[:, 0, None]
    columns = torch.arange(width, device=device) - by[:, 1, None]
    columns = torch.where(by[:, 2, None] == 1, width - 1 - columns, columns)
    inside = _within(rows, height)[:, None, :, None] & _within(columns, width)[:, None, None, :]
    channel = torch.arange(channels, device=device)[None, :, None, None]
    rows, columns = rows.clamp(0, height - 1)[:, None, :, None], columns.clamp(0, width - 1)[:, None, None, :]
    return torch.where(inside, images[chosen[:, None, None, None], channel, rows, columns], 0)


def _within(places: torch.Tensor, size: int) -> torch.Tensor:
    return (places >= 0) & (places < size)
