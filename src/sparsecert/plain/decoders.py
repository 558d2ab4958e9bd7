"""The decoders of all classes for inference, each for any number of images."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch.nn.functional import conv_transpose2d, elu

from sparsecert.plain.autoencoders import Autoencoders
from sparsecert.plain.row_layers import RowLayer, decode_by_rows

Decode = Callable[[torch.Tensor], torch.Tensor]


def is_gpu(device: torch.device) -> bool:
    """Whether launching work costs the device more than doing a little of it."""
    return device.type == "cuda"


class Decoders:
    """The decoders of `Autoencoders` in eval mode, batch norm folded into their convolutions.

    cuDNN is slow at transposed convolutions of so few channels in so many groups: a GPU gets them as products of
    matrices instead, row of pixels by row of pixels (see `RowLayer`).
    """

    def __init__(self, autoencoders: Autoencoders, device: torch.device) -> None:
        groups, parts = autoencoders.classes, list(autoencoders.decoder)
        self.layers: list[tuple[torch.Tensor, torch.Tensor, int]] = []  # weights and bias by class, stride
        for layer, after in pairwise(parts):
            if not isinstance(layer, torch.nn.ConvTranspose2d):
                continue
            weight = layer.weight.detach().view(groups, -1, *layer.weight.shape[1:])  # by class, in, out, kernel
            if isinstance(after, torch.nn.BatchNorm2d):
                scale, bias = _affine(after)
                weight = weight * scale.view(groups, 1, -1, 1, 1)
            else:
                assert layer.bias is not None
                bias = layer.bias.detach()
            self.layers.append((weight.to(device), bias.view(groups, -1).to(device), layer.stride[0]))
        self.by_rows: list[RowLayer] = []
        for weight, bias, stride in self.layers if is_gpu(device) else ():
            self.by_rows.append(RowLayer.of(weight, bias, stride, self.by_rows[-1].width if self.by_rows else 1))

    def __call__(self, latents: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        """Float[rows, lanes, 784]: the images of latents [rows, lanes, 8], of lane j by the decoder of classes[j]."""
        return self.of(classes)(latents)

    def of(self, classes: torch.Tensor) -> Decode:
        """The decoders of these classes, lane by lane, as a function of the latents."""
        if self.by_rows:
            return decode_by_rows([layer.lanes(classes) for layer in self.by_rows])
        layers = [
            (weight[classes].flatten(0, 1), bias[classes].view(-1, 1, 1), stride)
            for weight, bias, stride in self.layers
        ]

        def decode(latents: torch.Tensor) -> torch.Tensor:
            values = latents.reshape(len(latents), -1, 1, 1)
            for number, (weight, bias, stride) in enumerate(layers):
                values = elu(values, inplace=True) if number else values
                # added apart: oneDNN takes up to twice as long where it adds the bias
                values = conv_transpose2d(values, weight, None, stride, groups=len(classes)).add_(bias)
            return values.sigmoid().reshape(*latents.shape[:2], -1)

        return decode


def _affine(norm: torch.nn.BatchNorm2d) -> tuple[torch.Tensor, torch.Tensor]:
    """Batch norm in eval mode as a scale and a shift of each channel."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = norm.weight.detach() / (norm.running_var + norm.eps).sqrt()
    return scale, norm.bias.detach() - norm.running_mean * scale
