"""Floyd's algorithm as one GPU kernel: the same masks as `subsets`, bit for bit, without a launch per step.

One thread draws one mask: it computes Philox words as needed and marks the units it takes in the mask itself.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sparsecert.schemes.philox import key_of

ROWS_PER_BLOCK = 128  # one row per thread of four warps: a row's loads and stores stay in program order


def subsets(seed: int, examples: torch.Tensor, draws: torch.Tensor, units: int, size: int) -> torch.Tensor:
    """Bool[rows, units] with exactly `size` True in each row: what `subsets.subsets` returns."""
    taken = torch.zeros(len(examples), units, dtype=torch.uint8, device=examples.device)
    grid = (triton.cdiv(len(examples), ROWS_PER_BLOCK),)
    low, high = (word - (1 << 32) if word >> 31 else word for word in key_of(seed))  # as signed 32-bit arguments
    with torch.cuda.device(examples.device):
        _draw[grid](taken, examples, draws, low, high, len(examples), units, size, rows_per_block=ROWS_PER_BLOCK)
    return taken.view(torch.bool)


@triton.jit  # type: ignore[untyped-decorator,misc,unused-ignore]
def _draw(taken, examples, draws, key_low, key_high, rows, units, size, rows_per_block: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0).to(tl.int64) * rows_per_block + tl.arange(0, rows_per_block)
    live = row < rows
    example = tl.load(examples + row, mask=live, other=0)
    draw = tl.load(draws + row, mask=live, other=0)
    mask = taken + row * units
    for block in range((size + 1) // 2):
        c0 = (example * 0 + block).to(tl.uint32)
        c1, c2, c3 = draw.to(tl.uint32), example.to(tl.uint32), (draw >> 32).to(tl.uint32)
        k0, k1 = (c0 * 0 + key_low).to(tl.uint32), (c0 * 0 + key_high).to(tl.uint32)
        for _ in tl.static_range(10):
            product0, product1 = c0.to(tl.uint64) * 0xD2511F53, c2.to(tl.uint64) * 0xCD9E8D57
            c0 = (product1 >> 32).to(tl.uint32) ^ c1 ^ k0
            c2 = (product0 >> 32).to(tl.uint32) ^ c3 ^ k1
            c1, c3 = product1.to(tl.uint32), product0.to(tl.uint32)
            k0, k1 = k0 + 0x9E3779B9, k1 + 0xBB67AE85
        top = units - size + 2 * block
        _take(mask, c0, c1, top, live)
        _take(mask, c2, c3, top + 1, live & (2 * block + 1 < size))


@triton.jit  # type: ignore[untyped-decorator,misc,unused-ignore]
def _take(mask, high, low, top, live):  # type: ignore[no-untyped-def]
    choices = (top + 1).to(tl.uint64)
    choice = ((high.to(tl.uint64) * choices + ((low.to(tl.uint64) * choices) >> 32)) >> 32).to(tl.int64)
    already = tl.load(mask + choice, mask=live, other=0)
    tl.store(mask + tl.where(already != 0, top, choice), already * 0 + 1, mask=live)
