"""The architectures of plain networks, and a binarized one."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from sparsecert.errors import InputError
from sparsecert.models.digits_cnn import digits_cnn
from sparsecert.votes.eval_mode import in_eval_mode

THRESHOLD = 0.5


def four_convolutions(channels: int, classes: int) -> nn.Module:
    """Four convolutions for 28 x 28 images, the first three with batch norm and ELU; 0.25 M weights.

    Kernels 5, 4, 3, 5, strides 1, 2, 2, 1, no padding: output shapes 20x24x24, 70x11x11, 256x5x5, classes x1x1. It is
    modelled on Schott et al. (2019), who also use four convolutions; details may differ.
    """
    return nn.Sequential(
        *_convolution(channels, 20, kernel_size=5),
        *_convolution(20, 70, kernel_size=4, stride=2),
        *_convolution(70, 256, kernel_size=3, stride=2),
        nn.Conv2d(256, classes, kernel_size=5),
        nn.Flatten(),
    )


def _convolution(channels: int, filters: int, kernel_size: int, stride: int = 1) -> tuple[nn.Module, ...]:
    convolution = nn.Conv2d(channels, filters, kernel_size, stride, bias=False)  # batch norm adds one
    return convolution, nn.BatchNorm2d(filters), nn.ELU()


def two_convolutions(channels: int, classes: int) -> nn.Module:
    """The MNIST network of Madry et al. (2018), for 28 x 28 images; 3.3 M weights, no batch norm.

    Two 5x5 convolutions of 32 and 64 channels, each with ReLU and 2x2 max pooling, a linear layer of 1,024 units with
    ReLU, and one to the classes.
    """
    return nn.Sequential(
        nn.Conv2d(channels, 32, kernel_size=5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, kernel_size=5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 7 * 7, 1024),
        nn.ReLU(),
        nn.Linear(1024, classes),
    )


class Binarized(nn.Module):
    """A network on images binarized at 0.5. Its gradients are zero, so gradient attacks do not apply to it."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.network((images > THRESHOLD).to(images.dtype))
        return scores


NETWORKS: dict[str, Callable[[int, int], nn.Module]] = {
    "four-convolutions": four_convolutions,
    "two-convolutions": two_convolutions,
    "digits-cnn": digits_cnn,
}


def build(network: str, channels: int, classes: int, binarized: bool = False, seed: int = 0) -> nn.Module:
    """A network initialised by `seed`."""
    if network not in NETWORKS:
        raise InputError(f"network must be one of {', '.join(NETWORKS)}, got {network!r}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = NETWORKS[network](channels, classes)
    return Binarized(model) if binarized else model


def check_fit(model: nn.Module, name: str, shape: tuple[int, ...], classes: int) -> None:
    """Refuses a network that does not take images of this shape."""
    device = next(model.parameters()).device
    try:
        with torch.no_grad(), in_eval_mode(model):
            fits = model(torch.zeros(1, *shape, device=device)).shape == (1, classes)
    except RuntimeError:
        fits = False
    if not fits:
        raise InputError(f"the network {name} does not take images of shape {shape}; it is for another data set")
