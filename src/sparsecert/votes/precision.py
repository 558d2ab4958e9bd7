"""The precision of forward passes."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

PRECISIONS = {"fp32": None, "fp64": None, "bf16": torch.bfloat16, "fp16": torch.float16}


def autocast(device: torch.device, precision: str) -> AbstractContextManager[Any]:
    """Autocast for "bf16" and "fp16"; a no-op for "fp32" and, for tables, "fp64"."""
    dtype = PRECISIONS[precision]
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype=dtype)


def dtype_of(model: object) -> torch.dtype | None:
    """The common dtype of the model's floating-point tensors; None where they differ or there are none."""
    if not isinstance(model, torch.nn.Module):
        return None
    types = {tensor.dtype for tensor in (*model.parameters(), *model.buffers()) if tensor.is_floating_point()}
    return types.pop() if len(types) == 1 else None
