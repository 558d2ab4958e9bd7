"""The base classifier of the paper's MNIST experiments (its Table 9)."""

from __future__ import annotations

from torch import nn

from sparsecert.registry import MODELS


@MODELS.register("mnist-cnn")
def mnist_cnn(channels: int, classes: int) -> nn.Module:
    """Two 4x4 convolutions of stride 2 and three linear layers, for 28 x 28 images.

    Output shapes 64x14x14, 128x7x7, 6272, 500, 100, classes; it returns logits.
    """
    return nn.Sequential(
        nn.Conv2d(channels, 64, kernel_size=4, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(64, 128, kernel_size=4, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(128 * 7 * 7, 500),
        nn.ReLU(),
        nn.Linear(500, 100),
        nn.ReLU(),
        nn.Linear(100, classes),
    )
