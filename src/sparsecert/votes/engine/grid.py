"""Copies of grids without writing them: their pixels are gathered from the input."""

from __future__ import annotations

from collections.abc import Callable

import torch

from sparsecert.encodings import Encoding
from sparsecert.models.grid import GridNetwork


def network_of(model: GridNetwork, dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    """From planes to scores, products in `dtype`."""
    lower = dtype not in (torch.float32, torch.float64)

    def scores(planes: torch.Tensor) -> torch.Tensor:
        with torch.autocast(planes.device.type, dtype=dtype if lower else None, enabled=lower):
            found: torch.Tensor = model.network(planes)
        return found

    return scores


def planes(
    model: GridNetwork, encoding: Encoding, inputs: torch.Tensor, which: torch.Tensor, masks: torch.Tensor
) -> torch.Tensor:
    """What `model.network` sees of inputs[which[r]] ablated by masks[r]: [rows, channels, cells, cells].

    A cell that the edge cuts off before its pixel is NULL.
    """
    height, width = inputs.shape[2:]
    numbers = model.number(masks.view(-1, 1, height, width))
    y, x = (
        first[:, None] + torch.arange(0, size, model.spacing, device=inputs.device)
        for first, size in ((numbers // model.spacing, height), (numbers % model.spacing, width))
    )
    inside = (y < height)[:, :, None] & (x < width)[:, None]
    y, x = y.clamp(max=height - 1)[:, :, None], x.clamp(max=width - 1)[:, None]
    pixels = inputs[which[:, None, None], :, y, x].permute(0, 3, 1, 2)
    return model.planes(encoding(pixels, inside.flatten(1)), numbers)
