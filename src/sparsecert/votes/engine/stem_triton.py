"""A convolution over few channels with bias and ReLU as one GPU kernel.

cuDNN is memory-bound on such a first layer. Here every program gathers the windows of some output places as the rows of
a matrix and multiplies it by all filters, so that only the output, which is far larger than input and filters, is
written, once.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

PLACES, INNER = 128, 32  # places of the output in one program; window entries in one matrix product


class Stem:
    """relu(convolution + bias), stride 1, of a padded image."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor) -> None:
        self.out, self.channels, self.height, self.width = weight.shape
        window = weight.permute(2, 3, 1, 0).reshape(-1, self.out)  # (row, column, channel) by filter
        self.taps = len(window)
        self.filters = torch.nn.functional.pad(window, (0, 0, 0, -self.taps % INNER)).contiguous()
        self.bias = bias.contiguous()

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """[rows, filters, height, width] in channels-last memory."""
        x = x.permute(0, 2, 3, 1).contiguous()
        rows, height, width, _ = x.shape
        down, across = height - self.height + 1, width - self.width + 1
        result = torch.empty(rows, down, across, self.out, dtype=x.dtype, device=x.device)
        places = rows * down * across
        with torch.cuda.device(x.device):
            _convolve[(triton.cdiv(places, PLACES),)](
                x, self.filters, self.bias, result, places, down, across, height, width,
                taps=self.taps, steps=len(self.filters) // INNER, channels=self.channels, columns=self.width,
                out=self.out, places_per_block=PLACES, inner=INNER, num_warps=4,
            )  # fmt: skip
        return result.permute(0, 3, 1, 2)


@triton.jit  # type: ignore[untyped-decorator,misc,unused-ignore]
def _convolve(  # type: ignore[no-untyped-def]
    x, filters, bias, result, places, down, across, height, width,
    taps: tl.constexpr, steps: tl.constexpr, channels: tl.constexpr, columns: tl.constexpr,
    out: tl.constexpr, places_per_block: tl.constexpr, inner: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0).to(tl.int64) * places_per_block + tl.arange(0, places_per_block)
    there = place < places
    row, inside = place // (down * across), place % (down * across)
    corner = ((row * height + inside // across) * width + inside % across) * channels
    each = tl.arange(0, out)
    total = tl.zeros((places_per_block, out), dtype=tl.float32)
    for step in tl.static_range(steps):
        tap = step * inner + tl.arange(0, inner)
        pixel = tap // channels
        offset = ((pixel // columns) * width + pixel % columns) * channels + tap % channels
        window = tl.load(x + corner[:, None] + offset[None, :], mask=there[:, None] & (tap < taps)[None, :], other=0.0)
        total = tl.dot(window, tl.load(filters + tap[:, None] * out + each[None, :]), total)
    total += tl.load(bias + each)[None, :].to(tl.float32)
    total = tl.where(total <= 0, 0.0, total)  # not the maximum, which would make a NaN 0
    tl.store(result + place[:, None] * out + each[None, :], total.to(result.dtype.element_ty), mask=there[:, None])
