"""A 1 x 1 convolution with bias, residual sum and ReLU as one GPU kernel, for few input channels.

With few channels it is memory-bound: the two large operands of the sum are read once.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

PLACES, OUT = 128, 64  # places and filters of one program


class PointwiseConv:
    """relu(convolution + bias + summand), 1 x 1, of stride 1."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor) -> None:
        self.out, self.channels = weight.shape[:2]
        self.filters = weight.flatten(1).t().contiguous()
        self.bias = bias.contiguous()

    def __call__(self, x: torch.Tensor, summand: torch.Tensor) -> torch.Tensor:
        """[rows, filters, height, width] in channels-last memory."""
        x, summand = (tensor.permute(0, 2, 3, 1).contiguous() for tensor in (x, summand))
        result = torch.empty_like(summand)
        places = x.numel() // self.channels
        with torch.cuda.device(x.device):
            _convolve[(triton.cdiv(places, PLACES) * (self.out // OUT),)](
                x, self.filters, self.bias, summand, result, places,
                channels=self.channels, out=self.out, places_per_block=PLACES, out_per_block=OUT, num_warps=4,
            )  # fmt: skip
        return result.permute(0, 3, 1, 2)


@triton.jit  # type: ignore[untyped-decorator,misc,unused-ignore]
def _convolve(  # type: ignore[no-untyped-def]
    x, filters, bias, summand, result, places,
    channels: tl.constexpr, out: tl.constexpr, places_per_block: tl.constexpr, out_per_block: tl.constexpr,
):  # fmt: skip
    program, blocks = tl.program_id(0), out // out_per_block  # neighbouring programs share places, which stay cached
    place = (program // blocks).to(tl.int64) * places_per_block + tl.arange(0, places_per_block)
    there = (place < places)[:, None]
    each, inner = program % blocks * out_per_block + tl.arange(0, out_per_block), tl.arange(0, channels)
    seen = tl.load(x + place[:, None] * channels + inner[None, :], mask=there, other=0.0)
    total = tl.dot(seen, tl.load(filters + inner[:, None] * out + each[None, :]))
    target = place[:, None] * out + each[None, :]
    total += tl.load(bias + each)[None, :].to(tl.float32) + tl.load(summand + target, mask=there, other=0.0).to(
        tl.float32
    )
    total = tl.where(total <= 0, 0.0, total)  # not the maximum, which would make a NaN 0
    tl.store(result + target, total.to(result.dtype.element_ty), mask=there)
