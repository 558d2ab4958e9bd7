"""Plain networks: a model of `sparsecert.models` on images as they are, or binarized; or autoencoders."""

from __future__ import annotations

import torch
from torch import nn

from sparsecert import models
from sparsecert.plain.autoencoders import Autoencoders

THRESHOLD = 0.5
AUTOENCODERS = "autoencoders"


class Binarized(nn.Module):
    """A network on images binarized at 0.5. Its gradients are zero, so gradient attacks do not apply to it."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.network((images > THRESHOLD).to(images.dtype))
        return scores


def build(
    network: str, channels: int, classes: int, binarized: bool = False, seed: int = 0, **settings: int
) -> nn.Module:
    """The model of that name, initialised by `seed`; the arguments but the seed are saved in its file.

    The further settings are those of `Autoencoders`.
    """
    if network == AUTOENCODERS:
        return Autoencoders(channels, classes, binarized=binarized, seed=seed, **settings)
    if settings:
        raise ValueError(f"the network {network} has no {', '.join(settings)}")
    model = models.build(network, channels, classes, seed)
    return Binarized(model) if binarized else model
