"""Encoded copies in the memory layout of the fused network, written in one pass.

An encoding that is affine in each value is a table: entry o of a copy's memory is
    scale[o] * input[source[o]] + shift[o]   where unit[o] is retained,   null[o]   where it is not,
and 0 outside the image. One gather replaces encoding, padding and rearranging.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch

from sparsecert import devices
from sparsecert.encodings.encoding import Encoding


@dataclass(frozen=True)
class Layout:
    """The table, and the shape [height, width, channels] of a copy.

    Like every encoding it selects: nothing of an ablated unit reaches the copy.
    """

    shape: tuple[int, int, int]
    unit: torch.Tensor  # int32; -1 outside the image, where the copy holds null = 0
    source: torch.Tensor  # int32: place of the value in a flat input
    scale: torch.Tensor
    shift: torch.Tensor
    null: torch.Tensor

    def to(self, device: torch.device) -> Layout:
        """The same table on the device."""
        tables = {field.name: getattr(self, field.name).to(device) for field in fields(self)[1:]}
        return Layout(self.shape, **tables)

    def copies(
        self, inputs: torch.Tensor, which: torch.Tensor, masks: torch.Tensor, dtype: torch.dtype
    ) -> torch.Tensor:
        """[rows, height, width, channels] of `dtype`: row r is inputs[which[r]] ablated by masks[r]."""
        flat = inputs.flatten(1).float().contiguous()
        if masks.is_cuda and devices.support(masks.device).kernels:
            from sparsecert.votes.engine import layout_triton

            gathered = layout_triton.gather(self, flat, which, masks, dtype)
        else:
            gathered = self.gather(flat, which, masks).to(dtype)
        return gathered.view(len(masks), *self.shape)

    def gather(self, flat: torch.Tensor, which: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
        """Float[rows, entries], by tensor operations: the reference for the kernel."""
        retained = masks[:, self.unit.clamp(min=0).long()] & (self.unit >= 0)
        return torch.where(retained, flat[which][:, self.source.long()] * self.scale + self.shift, self.null)


def affine_is_of_encode(kind: type[Encoding]) -> bool:
    """Whether `affine` describes this class's `encode`; not so where a subclass overrides `encode` alone."""
    owners = {name: next(c for c in kind.__mro__ if name in vars(c)) for name in ("affine", "encode", "__call__")}
    return owners["affine"] is owners["encode"] and owners["__call__"] is Encoding


def layout_of(encoding: Encoding, shape: Sequence[int], block: int, padding: int, channels: int) -> Layout | None:
    """The encoding of images of `shape` with `padding` zeros around, in blocks of `block` x `block` pixels.

    A block's pixels become channels, ordered (encoded channel, row, column) and padded with zeros to `channels`.
    None for an encoding that is not affine.
    """
    values = encoding.affine(shape[0]) if affine_is_of_encode(type(encoding)) else None
    if values is None or len(shape) != 3:
        return None
    _, height, width = shape
    rows, columns = (height + 2 * padding) // block, (width + 2 * padding) // block
    row, column, channel = torch.meshgrid(
        torch.arange(rows), torch.arange(columns), torch.arange(channels), indexing="ij"
    )
    encoded = (channel // block**2).flatten()
    y = (row * block + channel // block % block - padding).flatten()
    x = (column * block + channel % block - padding).flatten()
    inside = (y >= 0) & (y < height) & (x >= 0) & (x < width) & (encoded < len(values))
    unit = torch.where(inside, y * width + x, -1)
    table = torch.tensor(values, dtype=torch.float64)[encoded.clamp(max=len(values) - 1)]
    source, scale, shift, null = table.unbind(1)
    return Layout(
        shape=(rows, columns, channels),
        unit=unit.int(),
        source=torch.where(inside, source.long() * height * width + unit, 0).int(),
        scale=scale.float(),
        shift=shift.float(),
        null=torch.where(inside, null, 0).float(),
    )
