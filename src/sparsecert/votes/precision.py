"""What forward passes are computed in."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

PRECISIONS = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


def autocast(device: torch.device, precision: str) -> AbstractContextManager[Any]:
    """Runs a model in "bf16" or "fp16"; "fp32" computes it as it is."""
    dtype = PRECISIONS[precision]
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype=dtype)


def dtype_of(model: object) -> torch.dtype | None:
    """The one dtype of all the model's floating-point tensors; None where they differ or there are none."""
    if not isinstance(model, torch.nn.Module):
        return None
    types = {tensor.dtype for tensor in (*model.parameters(), *model.buffers()) if tensor.is_floating_point()}
    return types.pop() if len(types) == 1 else None
