"""A small network for the built-in 8 x 8 digits."""

from __future__ import annotations

from torch import nn

from sparsecert.registry import MODELS


@MODELS.register("digits-cnn")
def digits_cnn(channels: int, classes: int) -> nn.Module:
    """The MNIST network scaled to 8 x 8: two convolutions (32x8x8, 64x4x4) and two linear layers, 0.17 M parameters."""
    return nn.Sequential(
        nn.Conv2d(channels, 32, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, kernel_size=4, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 128),
        nn.ReLU(),
        nn.Linear(128, classes),
    )
