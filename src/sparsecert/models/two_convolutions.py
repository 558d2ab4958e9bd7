"""The MNIST network of adversarial training, trained plain as a baseline for attacks.

Madry, Makelov, Schmidt, Tsipras & Vladu, "Towards Deep Learning Models Resistant to Adversarial Attacks" (ICLR 2018).
"""

from __future__ import annotations

from torch import nn

from sparsecert.registry import MODELS


@MODELS.register("two-convolutions")
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
