"""Random shifts and flips of uint8 images, before ablation."""

from __future__ import annotations

import torch

from sparsecert.schemes import AUGMENTATION
from sparsecert.schemes.philox import words


def random_shifts(seed: int, examples: torch.Tensor, epoch: int, reach: int) -> torch.Tensor:
    """int64[b, 3]: each image's shift down and right, from -reach to reach, and whether it is flipped.

    A pure function of seed, image and epoch: the same on every device and in every batch.
    """
    high, low = words(seed, examples, torch.full_like(examples, AUGMENTATION + epoch), 2)
    down, right = ((word * (2 * reach + 1) >> 32) - reach for word in (high[:, 0], low[:, 0]))
    return torch.stack((down, right, high[:, 1] & 1), dim=1)


def shift_and_flip(
    images: torch.Tensor, chosen: torch.Tensor, shifts: torch.Tensor, reflected: bool = False
) -> torch.Tensor:
    """images[chosen], flipped left to right where shifts[:, 2] is 1, then shifted by shifts[:, 0:2].

    What lies beyond the border is zero or, `reflected`, the image mirrored at it.
    """
    _, channels, height, width = images.shape
    device = images.device
    rows = torch.arange(height, device=device) - shifts[:, 0, None]
    columns = torch.arange(width, device=device) - shifts[:, 1, None]
    columns = torch.where(shifts[:, 2, None] == 1, width - 1 - columns, columns)
    rows, columns = rows[:, None, :, None], columns[:, None, None, :]
    channel = torch.arange(channels, device=device)[None, :, None, None]
    moved = images[chosen[:, None, None, None], channel, _mirrored(rows, height), _mirrored(columns, width)]
    if reflected:
        return moved
    return torch.where(_within(rows, height) & _within(columns, width), moved, 0)


def _within(indices: torch.Tensor, size: int) -> torch.Tensor:
    return (indices >= 0) & (indices < size)


def _mirrored(indices: torch.Tensor, size: int) -> torch.Tensor:
    """-1 is 1, size is size - 2, and so on; in a tiny image, where that leads beyond it, the first pixel."""
    return (size - 1 - (size - 1 - indices.abs()).abs()).clamp(min=0)
