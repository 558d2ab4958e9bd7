"""Batch sizes for GPUs, and transfers to them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

FEW = 64  # a GPU takes as long for one row as for this many

BatchSizes = Callable[[int, int, torch.device], tuple[int, int]]  # (copies left, most rows, device) -> (new, padded)


def pad_batch(rows: int, most: int, device: torch.device) -> int:
    """The rows of a forward pass: each new number costs a GPU setup. The padding does not vote."""
    return rows if device.type != "cuda" else min(most, round_up(rows))


def round_up(rows: int) -> int:
    """Rounds up by at most a quarter, to one of four sizes per power of two."""
    step = max(1, (1 << (rows - 1).bit_length()) // 8)
    return -(-rows // step) * step


def full_batches(left: int, most: int, device: torch.device) -> tuple[int, int]:
    """(copies of the next forward pass, up to `most`; its rows after padding)."""
    rows = min(most, left)
    return rows, pad_batch(rows, most, device)


def few_batch_sizes(left: int, most: int, device: torch.device) -> tuple[int, int]:
    """As `full_batches`, for numbers of copies that vary from query to query: a GPU gets only most, most / 8, ... rows.

    Pads to at most four times the rows that vote, or more in a pass so small that padding costs almost nothing.
    """
    if device.type != "cuda":
        return min(most, left), min(most, left)
    size = most
    while size >= 8 * FEW and size >= 4 * left:
        size //= 8
    return min(size, left), size


def on_device(device: torch.device) -> AbstractContextManager[Any]:
    """Makes a CUDA device the current one, for its stream and events."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """The tensor on the device, without waiting for the work queued there."""
    if device.type == "cuda" and not tensor.is_cuda:
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
