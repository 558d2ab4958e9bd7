"""Transposed convolutions as products of matrices, one row of pixels at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import torch
from torch.nn.functional import conv_transpose2d, elu, pad


@dataclass(frozen=True)
class RowLayer:
    """A transposed convolution of every lane, on rows of pixels with all their channels.

    An input row i reaches the `kernel` output rows from i * stride on: taps of `stride` rows each, the last one filled
    with zeros. matrix: float[lanes, values of an input row, taps, values of `stride` output rows]. bias: float[lanes,
    values of an output row]. width: pixels of an output row.

    Either each input row is multiplied by the matrices of all taps, and what falls on the same rows is added up; or,
    where that moves fewer values, the input rows that reach the same output rows are put side by side first.
    """

    matrix: torch.Tensor
    bias: torch.Tensor
    kernel: int
    stride: int
    width: int

    @classmethod
    def of(cls, weight: torch.Tensor, bias: torch.Tensor, stride: int, width: int) -> RowLayer:
        """Of weights [lanes, in, out, kernel, kernel] and biases [lanes, out], on images of that width."""
        count, channels, _, kernel, _ = weight.shape
        taps, new = -(-kernel // stride), (width - 1) * stride + kernel
        ones = torch.eye(channels * width, dtype=weight.dtype, device=weight.device)  # each a row with one value
        rows = [conv_transpose2d(ones.view(-1, channels, 1, width), own, stride=(1, stride)) for own in weight]
        matrix = pad(torch.stack(rows).movedim(3, 2).flatten(3), (0, 0, 0, taps * stride - kernel))
        matrix = matrix.view(count, channels * width, taps, -1)
        return cls(matrix, bias.repeat_interleave(new, dim=1), kernel, stride, new)

    def lanes(self, classes: torch.Tensor) -> RowLayer:
        """With lane j as lane classes[j] here."""
        return replace(self, matrix=self.matrix[classes], bias=self.bias[classes])

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        """Float[lanes, images, rows, values of a row] to the same of the output."""
        lanes, images, rows, _ = values.shape
        _, given, taps, made = self.matrix.shape
        every = rows + taps - 1  # groups of `stride` output rows
        if given < made:
            values = pad(values, (0, 0, taps - 1, taps - 1))
            values = torch.cat([values[:, :, tap : tap + every] for tap in reversed(range(taps))], dim=3)
            values = values.flatten(1, 2) @ self.matrix.transpose(1, 2).flatten(1, 2)
        else:
            values = (values.flatten(1, 2) @ self.matrix.flatten(2)).view(lanes, images, rows, taps, made)
            apart = (pad(values[:, :, :, tap], (0, 0, tap, taps - 1 - tap)) for tap in range(taps))
            values = reduce(torch.add, apart)
        values = values.reshape(lanes, images, every * self.stride, -1)
        return values[:, :, : (rows - 1) * self.stride + self.kernel] + self.bias[:, None, None]


def decode_by_rows(layers: Sequence[RowLayer]) -> Callable[[torch.Tensor], torch.Tensor]:
    """From latents [rows, lanes, 8] to images [rows, lanes, pixels]: ELU between the layers, and a sigmoid last."""

    def decode(latents: torch.Tensor) -> torch.Tensor:
        values = latents.transpose(0, 1).unsqueeze(2)
        for number, layer in enumerate(layers):
            values = layer(elu(values) if number else values)
        return values.sigmoid().flatten(2).transpose(0, 1)

    return decode
