"""The paper's procedure in straightforward PyTorch: the baseline of `benchmarks.engine`.

Repeat the image, draw the masks with torch's generator, encode, run the network, count.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

Stage = Callable[[str], None]


def count_votes(
    model: nn.Module,
    image: torch.Tensor,
    keep: int,
    n: int,
    classes: int,
    batch: int,
    generator: torch.Generator,
    done: Stage = lambda stage: None,
) -> torch.Tensor:
    """int64[classes]: the votes of n copies of image [c, h, w] that retain `keep` pixels each.

    `done(stage)` is called when a stage of a batch is over.
    """
    counts = torch.zeros(classes, dtype=torch.int64, device=image.device)
    for start in range(0, n, batch):
        size = min(batch, n - start)
        masks = draw_masks(size, image[0].numel(), keep, image.device, generator)
        done("masks")
        copies = encode(image.repeat(size, 1, 1, 1), masks)
        done("encoding")
        scores = model(copies)
        done("model")
        counts += torch.bincount(scores.argmax(dim=1), minlength=classes)
        done("counting")
    return counts


def draw_masks(size: int, pixels: int, keep: int, device: torch.device, generator: torch.Generator) -> torch.Tensor:
    """Float[size, pixels] with `keep` ones in each row: the places of the largest random numbers."""
    places = torch.rand(size, pixels, device=device, generator=generator).topk(keep, dim=1).indices
    return torch.zeros(size, pixels, device=device).scatter_(1, places, 1.0)


def encode(copies: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
    """s -> (s, 1 - s) where retained, (0, 0) where not."""
    shown = masks.view(len(masks), 1, *copies.shape[2:])
    return torch.cat((copies * shown, (1 - copies) * shown), dim=1)
