"""Random crops and flips of a batch of images, before ablation."""

from __future__ import annotations

import torch
from torch.nn.functional import pad


def crop_flip(images: torch.Tensor, generator: torch.Generator, padding: int = 4) -> torch.Tensor:
    """Each image shifted by up to `padding` pixels each way (zeros come in) and mirrored with probability 1/2.

    `generator` is on the CPU, so that the augmentation is the same on every device.
    """
    count, channels, height, width = images.shape
    shifts = torch.randint(0, 2 * padding + 1, (2, count), generator=generator)
    mirrored = torch.rand(count, generator=generator) < 0.5
    rows = shifts[0, :, None] + torch.arange(height)
    columns = shifts[1, :, None] + torch.arange(width)
    columns = torch.where(mirrored[:, None], columns.flip(1), columns)
    image, channel = torch.arange(count)[:, None, None, None], torch.arange(channels)[None, :, None, None]
    places = (image, channel, rows[:, None, :, None], columns[:, None, None, :])
    return pad(images, (padding,) * 4)[tuple(index.to(images.device) for index in places)]
