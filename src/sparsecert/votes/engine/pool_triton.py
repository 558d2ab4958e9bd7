"""Max pooling in channels-last memory as one GPU kernel."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

PLACES = 32  # places of the output in one program


def pool(x: torch.Tensor, size: int, stride: int, padding: int) -> torch.Tensor:
    """[rows, channels, height, width] in channels-last memory; what `max_pool2d` returns."""
    rows, channels, height, width = x.shape
    down, across = ((side + 2 * padding - size) // stride + 1 for side in (height, width))
    result = torch.empty(rows, down, across, channels, dtype=x.dtype, device=x.device)
    places = rows * down * across
    with torch.cuda.device(x.device):
        _pool[(triton.cdiv(places, PLACES),)](
            x, result, places, down, across, height, width,
            channels=channels, size=size, stride=stride, padding=padding, places_per_block=PLACES,
        )  # fmt: skip
    return result.permute(0, 3, 1, 2)


@triton.jit  # type: ignore[untyped-decorator,misc,unused-ignore]
def _pool(  # type: ignore[no-untyped-def]
    x, result, places, down, across, height, width,
    channels: tl.constexpr, size: tl.constexpr, stride: tl.constexpr, padding: tl.constexpr,
    places_per_block: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0).to(tl.int64) * places_per_block + tl.arange(0, places_per_block)
    there = place < places
    row, inside = place // (down * across), place % (down * across)
    top, left = inside // across * stride - padding, inside % across * stride - padding
    each = tl.arange(0, channels)
    largest = tl.full((places_per_block, channels), float("-inf"), dtype=tl.float32)
    for tap in tl.static_range(size * size):
        y, z = top + tap // size, left + tap % size
        seen = there & (y >= 0) & (y < height) & (z >= 0) & (z < width)
        source = x + ((row * height + y) * width + z)[:, None] * channels + each[None, :]
        value = tl.load(source, mask=seen[:, None], other=float("-inf")).to(tl.float32)
        largest = tl.where((value > largest) | (value != value), value, largest)
    tl.store(
        result + place[:, None] * channels + each[None, :], largest.to(result.dtype.element_ty), mask=there[:, None]
    )
