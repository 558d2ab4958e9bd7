"""The layers of a fused network on an NVIDIA GPU in half precision."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn.functional import linear

from sparsecert import devices
from sparsecert.votes.engine.layers import Convolution, Layer, LayerFunction, Pool, Sum

FEW_CHANNELS = 32  # below this cuDNN underuses tensor cores


def step(part: Layer) -> LayerFunction:
    """The layer as a function of [rows, channels, height, width] in channels-last memory."""
    if isinstance(part, Convolution):
        return convolution(part)
    if isinstance(part, Sum):
        return block(part)
    if isinstance(part, Pool):
        return lambda x: pooled(part, x)
    return part


def convolution(part: Convolution) -> LayerFunction:
    """A stem over few channels by our own kernel, others by cuDNN with fused bias and ReLU."""
    stem = _stem(part)
    if stem is not None:
        return stem
    if not part.rectified:
        return part
    return lambda x: torch.cudnn_convolution_relu(x, part.weight, part.bias, part.stride, part.padding, (1, 1), 1)


def _stem(part: Convolution) -> LayerFunction | None:
    out, channels = part.weight.shape[:2]
    fits = part.rectified and part.stride == (1, 1) and part.padding == (0, 0) and out in (16, 32, 64, 128)
    if not fits or channels > FEW_CHANNELS or not devices.support(part.weight.device).kernels:
        return None
    from sparsecert.votes.engine.stem_triton import Stem

    return Stem(part.weight, part.bias)


def block(part: Sum) -> LayerFunction:
    """A residual block, with sum and ReLU fused into the last convolution."""
    steps, last = [convolution(inside) for inside in part.branch[:-1]], summing(part.branch[-1])
    shortcut = None if part.shortcut is None else projection(part.shortcut)

    def run(x: torch.Tensor) -> torch.Tensor:
        inside = x
        for each in steps:
            inside = each(inside)
        return last(inside, x if shortcut is None else shortcut(x))

    return run


def summing(part: Convolution) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """relu(convolution + summand): 1 x 1 over few channels by our own kernel, others by cuDNN."""
    out, channels = part.weight.shape[:2]
    alone = tuple(part.weight.shape[2:]) == (1, 1) and (part.stride, part.padding) == ((1, 1), (0, 0))
    if alone and channels in (16, 32, 64) and out % 64 == 0 and devices.support(part.weight.device).kernels:
        from sparsecert.votes.engine.pointwise_triton import PointwiseConv

        return PointwiseConv(part.weight, part.bias)
    return lambda x, summand: torch.cudnn_convolution_add_relu(
        x, part.weight, summand, 1.0, part.bias, part.stride, part.padding, (1, 1), 1
    )


def projection(part: Convolution) -> LayerFunction:
    """A shortcut without bias: 1 x 1, it is a matrix product over the strided places."""
    if tuple(part.weight.shape[2:]) != (1, 1) or part.padding != (0, 0):
        return part
    weight = part.weight.flatten(1).contiguous()

    def run(x: torch.Tensor) -> torch.Tensor:
        places = x[:, :, :: part.stride[0], :: part.stride[1]].permute(0, 2, 3, 1).contiguous()
        return linear(places, weight).permute(0, 3, 1, 2)

    return run


def pooled(part: Pool, x: torch.Tensor) -> torch.Tensor:
    """Max pooling by one kernel that reads each value once, where it can be compiled."""
    channels = x.shape[1]
    is_laid_out = not channels & (channels - 1) and x.is_contiguous(memory_format=torch.channels_last)
    if not is_laid_out or not devices.support(x.device).kernels:
        return part(x)
    from sparsecert.votes.engine.pool_triton import pool

    return pool(x, part.size, part.stride, part.padding)
