"""Residual networks in their CIFAR and ImageNet forms.

He, Zhang, Ren & Sun, "Deep Residual Learning for Image Recognition" (CVPR 2016). The CIFAR form is the one the paper
built on: ImageNet's widths and depths behind a 3x3 stem without pooling.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from sparsecert.registry import MODELS

WIDTHS = 64, 128, 256, 512


class Residual(nn.Module):
    """relu(branch(x) + shortcut(x)), the shortcut projected where the shapes differ."""

    def __init__(self, branch: nn.Sequential, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.branch = branch
        same = stride == 1 and inside == outside
        self.shortcut = nn.Identity() if same else _convolution(inside, outside, size=1, stride=stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block's output."""
        return torch.relu(self.branch(x) + self.shortcut(x))


def _convolution(inside: int, outside: int, size: int, stride: int = 1) -> nn.Sequential:
    """A convolution without bias and its batch norm."""
    convolution = nn.Conv2d(inside, outside, size, stride=stride, padding=size // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outside))


def basic(inside: int, width: int, stride: int) -> Residual:
    """Two 3x3 convolutions."""
    branch = nn.Sequential(_convolution(inside, width, 3, stride), nn.ReLU(), _convolution(width, width, 3))
    return Residual(branch, inside, width, stride)


def bottleneck(inside: int, width: int, stride: int) -> Residual:
    """1x1, 3x3 (which carries the stride) and 1x1 convolutions, four times as wide outside."""
    branch = nn.Sequential(
        _convolution(inside, width, 1),
        nn.ReLU(),
        _convolution(width, width, 3, stride),
        nn.ReLU(),
        _convolution(width, 4 * width, 1),
    )
    return Residual(branch, inside, 4 * width, stride)


Block = Callable[[int, int, int], Residual]


def _trunk(block: Block, expansion: int, depths: tuple[int, ...], classes: int) -> list[nn.Module]:
    """The four stages and the classifier."""
    layers: list[nn.Module] = []
    inside = WIDTHS[0]
    for stage, (width, depth) in enumerate(zip(WIDTHS, depths, strict=True)):
        for position in range(depth):
            layers.append(block(inside, width, 2 if stage and not position else 1))
            inside = expansion * width
    return [*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, classes)]


@MODELS.register("resnet18-cifar")
def resnet18_cifar(channels: int, classes: int) -> nn.Module:
    """ResNet-18 for 32 x 32 images: 11.17 M weights with three channels and ten classes."""
    stem = [_convolution(channels, WIDTHS[0], 3), nn.ReLU()]
    return nn.Sequential(*stem, *_trunk(basic, 1, (2, 2, 2, 2), classes))


@MODELS.register("resnet50-cifar")
def resnet50_cifar(channels: int, classes: int) -> nn.Module:
    """ResNet-50 for 32 x 32 images: 23.52 M weights with three channels and ten classes."""
    stem = [_convolution(channels, WIDTHS[0], 3), nn.ReLU()]
    return nn.Sequential(*stem, *_trunk(bottleneck, 4, (3, 4, 6, 3), classes))


@MODELS.register("resnet50")
def resnet50(channels: int, classes: int) -> nn.Module:
    """ResNet-50 for 224 x 224 images: 25.56 M weights with three channels and 1,000 classes."""
    stem = [_convolution(channels, WIDTHS[0], 7, stride=2), nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1)]
    model = nn.Sequential(*stem, *_trunk(bottleneck, 4, (3, 4, 6, 3), classes))
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return model
