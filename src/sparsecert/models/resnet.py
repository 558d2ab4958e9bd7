"""Residual networks in their CIFAR and ImageNet forms.

He, Zhang, Ren & Sun, "Deep Residual Learning for Image Recognition" (CVPR 2016). The CIFAR form, which the paper uses,
has ImageNet's widths and depths behind a 3x3 stem without pooling.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from sparsecert.registry import MODELS

WIDTHS = 64, 128, 256, 512


class Residual(nn.Module):
    """relu(branch(x) + shortcut(x)), the shortcut projected where the shapes differ."""

    def __init__(self, branch: nn.Sequential, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.branch = branch
        same = stride == 1 and in_channels == out_channels
        self.shortcut = nn.Identity() if same else conv_bn(in_channels, out_channels, size=1, stride=stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.branch(x) + self.shortcut(x))


def conv_bn(in_channels: int, out_channels: int, size: int, stride: int = 1) -> nn.Sequential:
    """A convolution without bias, then batch norm."""
    convolution = nn.Conv2d(in_channels, out_channels, size, stride=stride, padding=size // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(out_channels))


def basic_block(in_channels: int, width: int, stride: int) -> Residual:
    """Two 3x3 convolutions."""
    branch = nn.Sequential(conv_bn(in_channels, width, 3, stride), nn.ReLU(), conv_bn(width, width, 3))
    return Residual(branch, in_channels, width, stride)


def bottleneck_block(in_channels: int, width: int, stride: int) -> Residual:
    """1x1, 3x3 (strided) and 1x1 convolutions, with an expansion of four."""
    branch = nn.Sequential(
        conv_bn(in_channels, width, 1),
        nn.ReLU(),
        conv_bn(width, width, 3, stride),
        nn.ReLU(),
        conv_bn(width, 4 * width, 1),
    )
    return Residual(branch, in_channels, 4 * width, stride)


Block = Callable[[int, int, int], Residual]


def _stages(block: Block, expansion: int, depths: tuple[int, ...], classes: int) -> list[nn.Module]:
    """The four stages and the classifier."""
    layers: list[nn.Module] = []
    in_channels = WIDTHS[0]
    for stage, (width, depth) in enumerate(zip(WIDTHS, depths, strict=True)):
        for position in range(depth):
            layers.append(block(in_channels, width, 2 if stage and not position else 1))
            in_channels = expansion * width
    return [*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(in_channels, classes)]


@MODELS.register("resnet18-cifar")
def resnet18_cifar(channels: int, classes: int) -> nn.Module:
    """ResNet-18 for 32 x 32 images: 11.17 M parameters with three channels and ten classes."""
    stem = [conv_bn(channels, WIDTHS[0], 3), nn.ReLU()]
    return nn.Sequential(*stem, *_stages(basic_block, 1, (2, 2, 2, 2), classes))


@MODELS.register("resnet50-cifar")
def resnet50_cifar(channels: int, classes: int) -> nn.Module:
    """ResNet-50 for 32 x 32 images: 23.52 M parameters with three channels and ten classes."""
    stem = [conv_bn(channels, WIDTHS[0], 3), nn.ReLU()]
    return nn.Sequential(*stem, *_stages(bottleneck_block, 4, (3, 4, 6, 3), classes))


@MODELS.register("resnet50")
def resnet50(channels: int, classes: int) -> nn.Module:
    """ResNet-50 for 224 x 224 images: 25.56 M parameters with three channels and 1,000 classes."""
    stem = [conv_bn(channels, WIDTHS[0], 7, stride=2), nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1)]
    model = nn.Sequential(*stem, *_stages(bottleneck_block, 4, (3, 4, 6, 3), classes))
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return model
