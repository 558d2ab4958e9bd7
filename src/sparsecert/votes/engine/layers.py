"""The layers of a fused network, in plain torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch.nn.functional import conv2d, linear, max_pool2d, relu


@dataclass(frozen=True)
class Convolution:
    """A convolution with optional ReLU, in channels-last memory."""

    weight: torch.Tensor
    bias: torch.Tensor
    stride: tuple[int, int]
    padding: tuple[int, int]
    rectified: bool

    def __call__(self, x: torch.Tensor, summand: torch.Tensor | None = None) -> torch.Tensor:
        """[rows, channels, height, width]; the summand is added before ReLU."""
        result = conv2d(x, self.weight, self.bias, self.stride, self.padding)
        result = result if summand is None else result + summand
        return relu(result) if self.rectified else result

    def to(self, dtype: torch.dtype) -> Convolution:
        """The same in another precision."""
        weight = self.weight.to(dtype).contiguous(memory_format=torch.channels_last)
        return replace(self, weight=weight, bias=self.bias.to(dtype))


@dataclass(frozen=True)
class Features:
    """A linear layer with optional ReLU."""

    weight: torch.Tensor
    bias: torch.Tensor
    rectified: bool

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """[rows, features]."""
        result = linear(x, self.weight, self.bias)
        return relu(result) if self.rectified else result

    def to(self, dtype: torch.dtype) -> Features:
        """The same in another precision."""
        return replace(self, weight=self.weight.to(dtype).contiguous(), bias=self.bias.to(dtype))


@dataclass(frozen=True)
class Pool:
    """Max pooling over square windows."""

    size: int
    stride: int
    padding: int

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """[rows, channels, height, width]."""
        return max_pool2d(x, self.size, self.stride, self.padding)

    def to(self, dtype: torch.dtype) -> Pool:
        return self


@dataclass(frozen=True)
class Sum:
    """relu(branch(x) + shortcut(x)), computed by the branch's last convolution; without a shortcut, it is x."""

    branch: tuple[Convolution, ...]
    shortcut: Convolution | None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """[rows, channels, height, width]."""
        inside = x
        for convolution in self.branch[:-1]:
            inside = convolution(inside)
        return self.branch[-1](inside, x if self.shortcut is None else self.shortcut(x))

    def to(self, dtype: torch.dtype) -> Sum:
        """The same in another precision."""
        shortcut = None if self.shortcut is None else self.shortcut.to(dtype)
        return Sum(tuple(convolution.to(dtype) for convolution in self.branch), shortcut)


@dataclass(frozen=True)
class Average:
    """Global average pooling."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """[rows, channels, 1, 1]."""
        return x.mean(dim=(2, 3), keepdim=True)

    def to(self, dtype: torch.dtype) -> Average:
        return self


@dataclass(frozen=True)
class Flattened:
    """Flattens places and channels, channels last."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """[rows, features]."""
        return x.permute(0, 2, 3, 1).flatten(1)

    def to(self, dtype: torch.dtype) -> Flattened:
        return self


LayerFunction = Callable[[torch.Tensor], torch.Tensor]
Layer = Convolution | Features | Pool | Sum | Average | Flattened
