"""The layers of a fused network on a CPU, by oneDNN: weights packed once, sums fused.

ReLU is separate, in place: oneDNN's would turn a NaN into 0, and an invalid copy into a vote.
"""

from __future__ import annotations

from typing import Any

import torch

from sparsecert.votes.engine.layers import Convolution, Features, Layer, LayerFunction, Sum


def step(part: Layer) -> LayerFunction:
    """The layer as a function of [rows, channels, height, width] in channels-last memory."""
    if isinstance(part, Convolution):
        return convolution(part)
    if isinstance(part, Features):
        return features(part)
    return block(part) if isinstance(part, Sum) else part


def convolution(part: Convolution) -> LayerFunction:
    """A convolution and its bias in one pass, then ReLU."""
    arguments = _arguments(part)

    def run(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.ops.mkldnn._convolution_pointwise(_channels_last(x), *arguments, "none", [], "")
        return result.relu_() if part.rectified else result

    return run


def block(part: Sum) -> LayerFunction:
    """A residual block; the last convolution adds to the shortcut, in its memory."""
    steps = [convolution(inside) for inside in part.branch[:-1]]
    arguments = _arguments(part.branch[-1])
    shortcut = None if part.shortcut is None else convolution(part.shortcut)

    def run(x: torch.Tensor) -> torch.Tensor:
        inside = x
        for each in steps:
            inside = each(inside)
        total = _channels_last(x) if shortcut is None else shortcut(x)
        added: torch.Tensor = torch.ops.mkldnn._convolution_pointwise_(
            total, _channels_last(inside), *arguments, "add", 1.0, None, [], None
        )
        return added.relu_()

    return run


def features(part: Features) -> LayerFunction:
    """A linear layer and its bias in one pass, then ReLU."""
    packed = torch.ops.mkldnn._reorder_linear_weight(part.weight, None)

    def run(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, packed, part.bias, "none", [], "")
        return result.relu_() if part.rectified else result

    return run


def _arguments(part: Convolution) -> tuple[Any, ...]:
    return part.weight, part.bias, list(part.padding), list(part.stride), [1, 1], 1


def _channels_last(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous(memory_format=torch.channels_last)
