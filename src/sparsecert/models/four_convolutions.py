"""A small network with batch norm for 28 x 28 images, trained plain as a baseline for attacks."""

from __future__ import annotations

from torch import nn

from sparsecert.registry import MODELS


@MODELS.register("four-convolutions")
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
