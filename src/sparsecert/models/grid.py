"""A residual network for grids: it sees the pixels that a mask retains as a small image of their own."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import avg_pool2d, pad

from sparsecert.errors import InputError
from sparsecert.models.resnet import basic_block, conv_bn
from sparsecert.registry import MODELS
from sparsecert.schemes import Scheme
from sparsecert.schemes.grid import Grid


class GridNetwork(nn.Module):
    """Scores copies by `network`, which gets one pixel for each spacing x spacing cell of the image, the one that the
    grid retains, and in two further channels its row and column within the cell.

    The sum over a cell is that pixel, since NULL is zero in every channel of `NullChannels`.
    """

    def __init__(self, spacing: int, network: nn.Module) -> None:
        super().__init__()
        self.spacing, self.network = spacing, network

    def forward(self, copies: torch.Tensor) -> torch.Tensor:
        """Scores of ablated copies: [rows, classes]."""
        pixels = avg_pool2d(copies, self.spacing, ceil_mode=True, divisor_override=1)
        return self._scores(pixels, self.number(copies))

    def score_all(self, whole: torch.Tensor) -> torch.Tensor:
        """Scores of every mask's copy of inputs of which nothing is NULL: [masks * inputs, classes], mask by mask."""
        spacing, (inputs, channels, height, width) = self.spacing, whole.shape
        padded = pad(whole, (0, -width % spacing, 0, -height % spacing))
        cells = padded.view(inputs, channels, -(-height // spacing), spacing, -(-width // spacing), spacing)
        numbers = torch.arange(spacing**2, device=whole.device)[:, None].expand(-1, inputs)
        return self._scores(cells.permute(3, 5, 0, 1, 2, 4).flatten(0, 2), numbers.flatten())

    def number(self, copies: torch.Tensor) -> torch.Tensor:
        """int64[rows]: the number of each copy's mask, from what it retains of the first cell."""
        cell = (copies[:, :, : self.spacing, : self.spacing] != 0).any(dim=1)
        return cell.flatten(1).int().argmax(dim=1)

    def planes(self, pixels: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        """What `network` sees: the pixels, [rows, channels, cells, cells], and where they are, by their mask."""
        places = torch.stack((numbers // self.spacing, numbers % self.spacing), dim=1) / self.spacing - 0.5
        places = places.to(pixels.dtype)[:, :, None, None].expand(-1, -1, *pixels.shape[2:])
        return torch.cat((pixels, places), dim=1).contiguous(memory_format=torch.channels_last)

    def _scores(self, pixels: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.network(self.planes(pixels, numbers))
        return scores


@MODELS.register("grid-resnet")
def grid_resnet(channels: int, classes: int, scheme: Scheme) -> nn.Module:
    """A residual network of six convolutions on what a grid retains: 1.2 M parameters."""
    blocks = basic_block(64, 64, 1), basic_block(64, 128, 2), basic_block(128, 256, 2)
    return _residual("grid-resnet", channels, scheme, 64, *blocks, *_classifier(256, classes, dropped=0.2))


@MODELS.register("grid-resnet-wide")
def grid_resnet_wide(channels: int, classes: int, scheme: Scheme) -> nn.Module:
    """Nine convolutions of 256 channels on what a grid retains, for grids of few pixels: 4.7 M parameters."""
    blocks = [basic_block(256, 256, 1) for _ in range(4)]
    return _residual("grid-resnet-wide", channels, scheme, 256, *blocks, *_classifier(256, classes))


def _residual(name: str, channels: int, scheme: Scheme, width: int, *layers: nn.Module) -> nn.Module:
    """The network of these layers behind a first convolution to `width` channels."""
    if not isinstance(scheme, Grid):
        raise InputError(f"model {name} needs the scheme grid, got {scheme}")
    if channels % 2:
        raise InputError(f"model {name} needs the encoding null-channels, got {channels} channels")
    return GridNetwork(scheme.spacing, nn.Sequential(conv_bn(channels + 2, width, 3), nn.ReLU(), *layers))


def _classifier(width: int, classes: int, dropped: float = 0.0) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(dropped), nn.Linear(width, classes)]
