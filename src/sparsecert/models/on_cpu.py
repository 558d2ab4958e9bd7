"""The parts of a folded network as oneDNN runs them on a CPU: weights packed once, ReLU and sums in the same pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from sparsecert.models.parts import Convolution, Features, Part, Sum

Step = Callable[[torch.Tensor], torch.Tensor]

OPERATIONS = "_convolution_pointwise", "_convolution_pointwise_", "_linear_pointwise", "_reorder_linear_weight"


def is_there(dtype: torch.dtype) -> bool:
    """Whether this torch has the fused operations for numbers of this type."""
    if dtype not in (torch.float32, torch.bfloat16) or not torch._C._has_mkldnn or not torch.backends.mkldnn.enabled:
        return False
    return all(hasattr(torch.ops.mkldnn, name) for name in OPERATIONS)


def step(part: Part) -> Step:
    """The part as a function of [rows, channels, height, width] in channels-last memory."""
    if isinstance(part, Convolution):
        return convolution(part)
    if isinstance(part, Features):
        return features(part)
    return block(part) if isinstance(part, Sum) else part


def convolution(part: Convolution) -> Step:
    """A convolution, its bias and its ReLU in one pass."""
    arguments, relu = _arguments(part), _activation(part)
    return lambda x: torch.ops.mkldnn._convolution_pointwise(_channels_last(x), *arguments, relu, [], "")


def block(part: Sum) -> Step:
    """A residual block; the last convolution adds to the shortcut, in its memory."""
    steps = [convolution(inside) for inside in part.branch[:-1]]
    arguments = _arguments(part.branch[-1])
    shortcut = None if part.shortcut is None else convolution(part.shortcut)

    def run(x: torch.Tensor) -> torch.Tensor:
        inside = x
        for each in steps:
            inside = each(inside)
        total = _channels_last(x) if shortcut is None else shortcut(x)
        return torch.ops.mkldnn._convolution_pointwise_(  # type: ignore[no-any-return]
            total, _channels_last(inside), *arguments, "add", 1.0, "relu", [], ""
        )

    return run


def features(part: Features) -> Step:
    """A linear layer, its bias and its ReLU in one pass."""
    packed, relu = torch.ops.mkldnn._reorder_linear_weight(part.weight, None), _activation(part)
    return lambda x: torch.ops.mkldnn._linear_pointwise(x, packed, part.bias, relu, [], "")


def _arguments(part: Convolution) -> tuple[Any, ...]:
    return part.weight, part.bias, list(part.padding), list(part.stride), [1, 1], 1


def _activation(part: Convolution | Features) -> str:
    return "relu" if part.rectified else "none"


def _channels_last(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous(memory_format=torch.channels_last)
