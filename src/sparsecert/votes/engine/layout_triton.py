"""`Layout.gather` as one GPU kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

if TYPE_CHECKING:
    from sparsecert.votes.engine.layout import Layout

ENTRIES_PER_BLOCK, ROWS_PER_BLOCK = 512, 16


def gather(
    layout: Layout, flat: torch.Tensor, which: torch.Tensor, masks: torch.Tensor, dtype: torch.dtype
) -> torch.Tensor:
    """[rows, entries] of `dtype`; row r is flat[which[r]] ablated by masks[r]."""
    rows, entries = len(masks), len(layout.unit)
    result = torch.empty(rows, entries, dtype=dtype, device=masks.device)
    grid = (triton.cdiv(rows, ROWS_PER_BLOCK), triton.cdiv(entries, ENTRIES_PER_BLOCK))
    with torch.cuda.device(masks.device):
        _gather[grid](
            result, flat, which, masks.contiguous().view(torch.uint8),
            layout.unit, layout.source, layout.scale, layout.shift, layout.null,
            rows, entries, flat.shape[1], masks.shape[1],
            entries_per_block=ENTRIES_PER_BLOCK, rows_per_block=ROWS_PER_BLOCK,
        )  # fmt: skip
    return result


@triton.jit  # type: ignore[untyped-decorator,misc,unused-ignore]
def _gather(  # type: ignore[no-untyped-def]
    result, flat, which, masks, unit, source, scale, shift, null, rows, entries, values, units,
    entries_per_block: tl.constexpr, rows_per_block: tl.constexpr,
):  # fmt: skip
    entry = tl.program_id(1) * entries_per_block + tl.arange(0, entries_per_block)
    there = entry < entries
    at, place = tl.load(unit + entry, mask=there, other=-1), tl.load(source + entry, mask=there, other=0)
    factor, summand = tl.load(scale + entry, mask=there, other=0.0), tl.load(shift + entry, mask=there, other=0.0)
    empty = tl.load(null + entry, mask=there, other=0.0)
    first = tl.program_id(0).to(tl.int64) * rows_per_block
    for row in range(first, min(first + rows_per_block, rows)):
        retained = tl.load(masks + row * units + at, mask=there & (at >= 0), other=0) != 0
        value = tl.load(flat + tl.load(which + row) * values + place, mask=retained, other=0.0)
        shown = tl.where(retained, value * factor + summand, empty)
        tl.store(result + row * entries + entry, shown.to(result.dtype.element_ty), mask=there)
