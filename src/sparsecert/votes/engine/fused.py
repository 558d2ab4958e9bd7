"""Fuses stacks of convolutions, residual blocks and linear layers into an equivalent network that runs faster.

Each rewriting is exact: batch norm is folded into the convolution before it; a first convolution of stride s over few
channels becomes one of stride 1 over s * s times as many, by space-to-depth (tensor cores want many channels); memory
is channels-last, and the columns of a linear layer after `Flatten` are reordered accordingly; linear layers are padded
with zeros to multiples of 64; a residual sum is computed by the last convolution of its branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import Any

import torch
from torch import nn
from torch.nn.functional import pad

from sparsecert.models.resnet import Residual
from sparsecert.votes.engine.layers import Average, Convolution, Features, Flattened, Layer, LayerFunction, Pool, Sum

CHANNELS, FEATURES = 8, 64  # sizes are padded to multiples of these for tensor cores


class CannotFuse(Exception):
    """Raised for a model that cannot be fused; it runs unchanged."""


@dataclass(frozen=True)
class FusedNetwork:
    """The fused network; it reads padded copies in blocks of `block` x `block` pixels, with `channels` channels."""

    block: int
    padding: int
    channels: int
    layers: tuple[Layer, ...]
    classes: int

    def bound_to(self, prepare: Callable[[Layer], LayerFunction]) -> Callable[[torch.Tensor], torch.Tensor]:
        """Copies [rows, height, width, channels] -> scores [rows, classes], each layer prepared by `prepare`."""
        steps = [prepare(part) for part in self.layers]

        def scores(copies: torch.Tensor) -> torch.Tensor:
            x = copies.permute(0, 3, 1, 2)
            for step in steps:
                x = step(x)
            return x[:, : self.classes]

        return scores


def fuse(model: Any, shape: Sequence[int], dtype: torch.dtype, tensor_cores: bool = True) -> FusedNetwork | None:
    """`model` fused for images of `shape`, with its current weights; None if it is not such a stack.

    For `tensor_cores` it uses space-to-depth and padding, otherwise only channels-last memory.
    """
    if len(shape) != 3:
        return None
    try:
        with torch.no_grad():
            layers = _layers(model, dtype)
            _check_channels(layers, tensor_cores)
            return _padded(layers, shape) if tensor_cores else _unpadded(layers)
    except (CannotFuse, TypeError, IndexError, AssertionError):  # or an unforeseen module configuration
        return None


def _layers(model: Any, dtype: torch.dtype) -> list[Layer]:
    """The model as a list of layers that starts with a convolution and ends with a linear layer."""
    if type(model) is not nn.Sequential or any(_is_modified(module) for module in model.modules()):
        raise CannotFuse
    layers = _joined(model)
    if not isinstance(layers[0], Convolution) or not isinstance(layers[-1], Features) or layers[-1].rectified:
        raise CannotFuse
    in_half = [part.to(dtype) for part in layers]
    _check_order(in_half)
    return in_half


def _joined(sequence: nn.Sequential) -> list[Layer]:
    """The layers of a sequence, with ReLU and batch norm folded into the layer before."""
    layers: list[Layer] = []
    for module in _flat(sequence):
        if type(module) is nn.ReLU:
            _rectify(layers)
        elif type(module) is nn.BatchNorm2d:
            _normalise(layers, module)
        elif type(module) is nn.Linear:
            layers.append(_features(module, layers))
        else:
            layers.append(_part(module))
    return layers


def _check_channels(layers: Sequence[Layer], tensor_cores: bool) -> None:
    """Refuses one channel: both memory layouts are then the same, and libraries misread it.

    For `tensor_cores` the channels of the copies themselves are padded.
    """
    for place, layer in enumerate(layers):
        convolutions = [layer] if isinstance(layer, Convolution) else []
        if isinstance(layer, Sum):
            convolutions = [*layer.branch, *([] if layer.shortcut is None else [layer.shortcut])]
        for convolution in convolutions:
            out, inside = convolution.weight.shape[:2]
            if out == 1 or (inside == 1 and not (tensor_cores and place == 0)):
                raise CannotFuse


def _flat(model: nn.Sequential) -> Iterator[nn.Module]:
    """The modules in order, with nested sequences flattened."""
    for module in model:
        if type(module) is nn.Sequential:
            yield from _flat(module)
        else:
            yield module


def _is_modified(module: nn.Module) -> bool:
    """Whether hooks or an overridden `forward` change what the module computes."""
    return bool(module._forward_hooks or module._forward_pre_hooks) or "forward" in vars(module)


def _part(module: nn.Module) -> Layer:
    if type(module) is nn.Conv2d:
        return _convolution(module)
    if type(module) is Residual:
        return _residual(module)
    if type(module) is nn.MaxPool2d and _is_plain_pool(module):
        return Pool(_number(module.kernel_size), _number(module.stride), _number(module.padding))
    if type(module) is nn.AdaptiveAvgPool2d and module.output_size in (1, (1, 1)):
        return Average()
    if type(module) is nn.Flatten and (module.start_dim, module.end_dim) == (1, -1):
        return Flattened()
    raise CannotFuse


def _convolution(layer: nn.Conv2d) -> Convolution:
    covered = (layer.groups, layer.dilation, layer.padding_mode) == (1, (1, 1), "zeros")
    if not covered or isinstance(layer.padding, str) or type(layer.weight) is not nn.Parameter:
        raise CannotFuse
    bias = layer.bias if layer.bias is not None else layer.weight.new_zeros(layer.out_channels)
    stride, padding = (layer.stride[0], layer.stride[1]), (int(layer.padding[0]), int(layer.padding[1]))
    return Convolution(layer.weight, bias, stride, padding, rectified=False)


def _residual(module: Residual) -> Sum:
    """relu(branch(x) + shortcut(x)), with both biases in the branch."""
    branch = _convolutions(module.branch)
    shortcut = None if type(module.shortcut) is nn.Identity else _convolutions(module.shortcut)
    projected = shortcut is None or (len(shortcut) == 1 and not shortcut[0].rectified)
    if len(branch) < 2 or branch[-1].rectified or not projected or not _adds_alike(branch, shortcut or []):
        raise CannotFuse
    if shortcut is None:
        return Sum((*branch[:-1], replace(branch[-1], rectified=True)), None)
    last = replace(branch[-1], bias=branch[-1].bias + shortcut[0].bias, rectified=True)
    return Sum((*branch[:-1], last), replace(shortcut[0], bias=torch.zeros_like(shortcut[0].bias)))


def _adds_alike(branch: Sequence[Convolution], shortcut: Sequence[Convolution]) -> bool:
    """Whether branch and shortcut have the same shape for every image, so that the sum broadcasts nothing.

    An odd kernel, padded by half of it, leaves ceil(size / stride) places; such ceilings compose.
    """
    keeps = all(
        size % 2 == 1 and padding == size // 2
        for part in (*branch, *shortcut)
        for size, padding in zip(part.weight.shape[2:], part.padding, strict=True)
    )
    strides = [
        (prod(part.stride[0] for part in layers), prod(part.stride[1] for part in layers))
        for layers in (branch, shortcut)
    ]
    outside = len(shortcut[-1].weight) if shortcut else branch[0].weight.shape[1]
    return keeps and strides[0] == strides[1] and len(branch[-1].weight) == outside


def _convolutions(sequence: nn.Module) -> list[Convolution]:
    if type(sequence) is not nn.Sequential:
        raise CannotFuse
    layers = _joined(sequence)
    convolutions = [part for part in layers if isinstance(part, Convolution)]
    if len(convolutions) != len(layers) or not layers:
        raise CannotFuse
    return convolutions


def _rectify(layers: list[Layer]) -> None:
    """Folds ReLU into a convolution or linear layer."""
    if not layers or not isinstance(layers[-1], Convolution | Features) or layers[-1].rectified:
        raise CannotFuse
    layers[-1] = replace(layers[-1], rectified=True)


def _normalise(layers: list[Layer], norm: nn.BatchNorm2d) -> None:
    """Folds batch norm, with its running statistics, into a convolution."""
    if not layers or not isinstance(layers[-1], Convolution) or layers[-1].rectified or norm.running_var is None:
        raise CannotFuse
    assert norm.running_mean is not None
    scale = torch.rsqrt(norm.running_var.double() + norm.eps)
    scale = scale if norm.weight is None else scale * norm.weight.double()
    shift = torch.zeros_like(scale) if norm.bias is None else norm.bias.double()
    before = layers[-1]
    weight = before.weight.double() * scale[:, None, None, None]
    bias = (before.bias.double() - norm.running_mean.double()) * scale + shift
    layers[-1] = replace(before, weight=weight.to(before.weight.dtype), bias=bias.to(before.weight.dtype))


def _features(layer: nn.Linear, before: list[Layer]) -> Features:
    if layer.bias is None or type(layer.weight) is not nn.Parameter:
        raise CannotFuse
    weight: torch.Tensor = layer.weight
    if before and isinstance(before[-1], Flattened):
        weight = _channels_innermost(weight, before)
    return Features(weight, layer.bias, rectified=False)


def _channels_innermost(weight: torch.Tensor, before: list[Layer]) -> torch.Tensor:
    """Reorders the columns of the layer after `Flatten` from (channel, place) to (place, channel)."""
    inside = before[-2] if len(before) > 1 else None
    if isinstance(inside, Average):
        return weight
    channels = inside.branch[-1] if isinstance(inside, Sum) else inside
    if isinstance(inside, Pool) or not isinstance(channels, Convolution):
        raise CannotFuse
    return weight.reshape(len(weight), len(channels.weight), -1).transpose(1, 2).reshape(len(weight), -1)


def _check_order(layers: Sequence[Layer]) -> None:
    """Requires convolutions, blocks and pools, then at most one average, `Flatten`, and linear layers."""
    kinds = [type(part) for part in layers]
    if Flattened not in kinds:
        raise CannotFuse
    middle = kinds.index(Flattened)
    images, features = kinds[:middle], kinds[middle + 1 :]
    if Average in images[:-1] or Features in images or any(kind is not Features for kind in features):
        raise CannotFuse


def _is_plain_pool(pool: nn.MaxPool2d) -> bool:
    sizes = (pool.kernel_size, pool.stride, pool.padding, pool.dilation)
    square = all(isinstance(size, int) or size[0] == size[1] for size in sizes)
    return square and _number(pool.dilation) == 1 and not pool.ceil_mode and not pool.return_indices


def _number(size: Any) -> int:
    return int(size if isinstance(size, int) else size[0])


def _unpadded(layers: list[Layer]) -> FusedNetwork:
    stem, last = layers[0], layers[-1]
    assert isinstance(stem, Convolution)
    assert isinstance(last, Features)
    return FusedNetwork(1, 0, stem.weight.shape[1], tuple(layers), len(last.weight))


def _padded(layers: list[Layer], shape: Sequence[int]) -> FusedNetwork:
    """A first convolution over blocks of a padded image, and linear layers padded to multiples of 64."""
    stem, last = layers[0], layers[-1]
    assert isinstance(stem, Convolution)
    assert isinstance(last, Features)
    block, padding = (stem.stride[0], stem.padding[0]) if _cuts_into_blocks(stem, shape) else (1, 0)
    if stem.stride == (1, 1) and stem.padding[0] == stem.padding[1]:
        padding = stem.padding[0]
    stem = _in_blocks(stem, block, padding)
    others = [
        _pad_features(part, isinstance(before, Features)) if isinstance(part, Features) else part
        for before, part in pairwise(layers)
    ]
    return FusedNetwork(block, padding, stem.weight.shape[1], (stem, *others), len(last.weight))


def _cuts_into_blocks(stem: Convolution, shape: Sequence[int]) -> bool:
    """Whether image and kernel, padded with zeros if needed, are whole numbers of stride x stride blocks."""
    stride, padding = stem.stride[0], stem.padding[0]
    if stem.stride != (stride, stride) or stem.padding != (padding, padding):
        return False
    padded = [size + 2 * padding for size in shape[1:]]
    kernels = [size + -size % stride for size in stem.weight.shape[2:]]
    fits = [place - kernel >= 0 and place % stride == 0 for place, kernel in zip(padded, kernels, strict=True)]
    places = [
        (place - old) // stride == (place - new) // stride
        for place, old, new in zip(padded, stem.weight.shape[2:], kernels, strict=True)
    ]
    return all(fits) and all(places)


def _in_blocks(stem: Convolution, block: int, padding: int) -> Convolution:
    """The same convolution after space-to-depth; channels (channel, row, column in the block), then zeros."""
    whole = pad(stem.weight, (0, -stem.weight.shape[3] % block, 0, -stem.weight.shape[2] % block))
    out, channels, height, width = whole.shape
    cut = whole.reshape(out, channels, height // block, block, width // block, block)
    weight = cut.permute(0, 1, 3, 5, 2, 4).reshape(out, channels * block**2, height // block, width // block)
    weight = pad(weight, (0, 0, 0, 0, 0, -weight.shape[1] % CHANNELS)).contiguous(memory_format=torch.channels_last)
    if block > 1:
        return replace(stem, weight=weight, stride=(1, 1), padding=(0, 0))
    return replace(stem, weight=weight, padding=(0, 0) if padding else stem.padding)


def _pad_features(layer: Features, after_another: bool) -> Features:
    """The layer padded with zero rows, and with columns for those of the layer before.

    The last layer's padding rows are cut off later.
    """
    rows, columns = (-size % FEATURES for size in layer.weight.shape)
    weight = pad(layer.weight, (0, columns if after_another else 0, 0, rows)).contiguous()
    return replace(layer, weight=weight, bias=pad(layer.bias, (0, rows)))
