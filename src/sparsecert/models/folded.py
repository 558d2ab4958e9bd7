"""Plain stacks of convolutions and linear layers in the form a GPU runs fastest: the same function, other memory.

Three rewritings, each exact: a first convolution of stride s over few channels becomes one of stride 1 over s * s times
as many, on an image cut into s x s blocks (tensor cores want many channels); channels lie innermost, and the linear
layer after `Flatten` has its columns in that order; linear layers are filled up with zeros to multiples of 64.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.nn.functional import conv2d, linear, pad, relu

CHANNELS, FEATURES = 8, 64  # sizes are filled up to multiples of these


@dataclass(frozen=True)
class Convolution:
    """A convolution, and ReLU where it follows; channels innermost."""

    weight: torch.Tensor
    bias: torch.Tensor
    stride: tuple[int, int]
    padding: tuple[int, int]
    rectified: bool

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """[rows, channels, height, width], in channels-last memory."""
        if self.rectified and x.is_cuda:
            return torch.cudnn_convolution_relu(x, self.weight, self.bias, self.stride, self.padding, (1, 1), 1)
        result = conv2d(x, self.weight, self.bias, self.stride, self.padding)
        return relu(result) if self.rectified else result


@dataclass(frozen=True)
class Features:
    """A linear layer, and ReLU where it follows."""

    weight: torch.Tensor
    bias: torch.Tensor
    rectified: bool

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """[rows, features]."""
        result = linear(x, self.weight, self.bias)
        return relu(result) if self.rectified else result


@dataclass(frozen=True)
class Folded:
    """The network; it reads copies in blocks of `block` x `block` pixels with `padding` around, `channels` deep."""

    block: int
    padding: int
    channels: int
    convolutions: tuple[Convolution, ...]
    features: tuple[Features, ...]
    classes: int

    def __call__(self, copies: torch.Tensor) -> torch.Tensor:
        """Scores [rows, classes] of copies [rows, height, width, channels]."""
        x = copies.permute(0, 3, 1, 2)
        for convolution in self.convolutions:
            x = convolution(x)
        x = x.permute(0, 2, 3, 1).flatten(1)
        for layer in self.features:
            x = layer(x)
        return x[:, : self.classes]


def folded(model: Any, shape: Sequence[int], dtype: torch.dtype) -> Folded | None:
    """`model` for images of `shape`, with its weights as they are now; None for a model that is not such a stack."""
    layers = _layers(model)
    if layers is None or len(shape) != 3:
        return None
    middle = next(place for place, (layer, _) in enumerate(layers) if isinstance(layer, nn.Flatten))
    stem, last = layers[0][0], layers[-1][0]
    block = stem.stride[0] if _cuts_into_blocks(stem, shape) else 1
    with torch.no_grad():
        convolutions = [_convolution(layer, rectified, dtype) for layer, rectified in layers[:middle]]
        convolutions[0] = _in_blocks(convolutions[0], block)
        features = [_filled(layer, rectified, dtype) for layer, rectified in layers[middle + 1 :]]
        features[0] = _channels_innermost(features[0], layers[middle - 1][0].out_channels, layers[middle + 1][0])
    padding = stem.padding[0] if block > 1 else 0
    channels = convolutions[0].weight.shape[1]
    return Folded(block, padding, channels, tuple(convolutions), tuple(features), last.out_features)


def _layers(model: Any) -> list[tuple[Any, bool]] | None:
    """Convolutions, `Flatten`, linear layers, each with whether ReLU follows; None for anything else."""
    if type(model) is not nn.Sequential or any(_is_altered(module) for module in model.modules()):
        return None
    layers: list[tuple[Any, bool]] = []
    for module in model:
        if type(module) is nn.ReLU and layers and not layers[-1][1] and type(layers[-1][0]) is not nn.Flatten:
            layers[-1] = layers[-1][0], True
        else:
            layers.append((module, False))
    kinds = "".join({nn.Conv2d: "c", nn.Flatten: "f", nn.Linear: "l"}.get(type(layer), "?") for layer, _ in layers)
    if not re.fullmatch("c+fl+", kinds) or layers[-1][1]:
        return None
    return layers if all(_plain(layer) for layer, _ in layers) else None


def _is_altered(module: nn.Module) -> bool:
    """Whether something beside the module's own class decides what it computes."""
    return bool(module._forward_hooks or module._forward_pre_hooks) or "forward" in vars(module)


def _plain(layer: Any) -> bool:
    """Whether the layer has no option set that the rewritings do not cover."""
    if isinstance(layer, nn.Flatten):
        return (layer.start_dim, layer.end_dim) == (1, -1)
    if isinstance(layer, nn.Conv2d):
        covered = (layer.groups, layer.dilation, layer.padding_mode) == (1, (1, 1), "zeros")
        return covered and not isinstance(layer.padding, str) and layer.bias is not None
    return layer.bias is not None


def _cuts_into_blocks(stem: nn.Conv2d, shape: Sequence[int]) -> bool:
    """Whether padded image and kernel are whole numbers of stride x stride blocks."""
    stride, padding = stem.stride[0], int(stem.padding[0])
    square = stem.stride == (stride, stride) and stem.padding == (padding, padding)
    padded = [size + 2 * padding for size in shape[1:]]
    return square and all(size % stride == 0 for size in (*padded, *stem.kernel_size))


def _convolution(layer: nn.Conv2d, rectified: bool, dtype: torch.dtype) -> Convolution:
    assert layer.bias is not None
    weight = layer.weight.to(dtype).contiguous(memory_format=torch.channels_last)
    stride, padding = (layer.stride[0], layer.stride[1]), (int(layer.padding[0]), int(layer.padding[1]))
    return Convolution(weight, layer.bias.to(dtype), stride, padding, rectified)


def _in_blocks(stem: Convolution, block: int) -> Convolution:
    """The same convolution over blocks of pixels; channels (channel, row, column in the block), then zeros."""
    out, channels, height, width = stem.weight.shape
    cut = stem.weight.reshape(out, channels, height // block, block, width // block, block)
    weight = cut.permute(0, 1, 3, 5, 2, 4).reshape(out, channels * block**2, height // block, width // block)
    weight = pad(weight, (0, 0, 0, 0, 0, -weight.shape[1] % CHANNELS)).contiguous(memory_format=torch.channels_last)
    if block == 1:
        return replace(stem, weight=weight)
    return replace(stem, weight=weight, stride=(1, 1), padding=(0, 0))


def _filled(layer: nn.Linear, rectified: bool, dtype: torch.dtype) -> Features:
    """The layer with as many zero rows and columns as even sizes need; those of the last layer are cut off again."""
    rows = -layer.out_features % FEATURES
    columns = -layer.in_features % FEATURES
    weight, bias = pad(layer.weight, (0, columns, 0, rows)), pad(layer.bias, (0, rows))
    return Features(weight.to(dtype).contiguous(), bias.to(dtype), rectified)


def _channels_innermost(layer: Features, channels: int, original: nn.Linear) -> Features:
    """The columns of the layer after `Flatten`, from (channel, place) order to (place, channel) order."""
    columns = layer.weight[:, : original.in_features]
    turned = columns.reshape(len(columns), channels, -1).transpose(1, 2).reshape(len(columns), -1)
    return replace(layer, weight=turned.contiguous())
