"""Random words as a pure function of (key, counter): Philox4x32-10 on tensors, the same on CPU and GPU.

Salmon, Moraes, Dror & Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011). The generator has no state, so a
mask can be drawn on any machine, in any order. Its output passes the usual statistical batteries; like every Monte
Carlo guarantee, ours treats it as random.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch

from sparsecert.errors import InputError, check_int

MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
KEY_STEPS = 0x9E3779B9, 0xBB67AE85
ROUNDS = 10
WORD = 0xFFFFFFFF
WHOLE = torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64


def as_numbers(name: str, numbers: Any, device: Any = None, bits: int = 32) -> torch.Tensor:
    """int64[m] on `device`, each below 2**bits: a tensor or sequence as it is, a plain int n as 0, 1, ..., n - 1."""
    try:
        if isinstance(numbers, bool | str | bytes):
            raise TypeError
        if getattr(numbers, "ndim", 0) == 0 and hasattr(numbers, "__index__"):
            numbers = range(operator.index(numbers))
        if isinstance(numbers, range):
            numbers = torch.arange(numbers.start, numbers.stop, numbers.step)
        tensor = torch.as_tensor(numbers if len(numbers) else torch.empty(0, dtype=torch.int64))
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} must be a whole number or a sequence of them, got {numbers!r}") from error
    if tensor.ndim != 1 or tensor.dtype not in WHOLE:
        raise InputError(
            f"{name} must be a flat sequence of whole numbers, got {tensor.dtype} of {tuple(tensor.shape)}"
        )
    tensor = tensor.to(device=device, dtype=torch.int64)
    if tensor.numel() and not (tensor.min() >= 0 and tensor.max() < 1 << bits):
        raise InputError(f"{name} must be between 0 and 2**{bits} - 1, got {tensor.min()} to {tensor.max()}")
    return tensor


def key_of(seed: int) -> tuple[int, int]:
    """The two key words of a seed."""
    seed = check_int("seed", seed, 0, (1 << 64) - 1, "2**64 - 1")
    return seed & WORD, seed >> 32


def philox(key: tuple[int, int], counter: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Four 32-bit words (held in int64) for each 128-bit counter, given as four broadcastable tensors of words.

    Products of 32-bit words wrap around int64's sign, but keep their 64 bits: shift, then mask, gives the high word.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        product0, product1 = c0 * MULTIPLIERS[0], c2 * MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            ((product1 >> 32) & WORD) ^ c1 ^ k0,
            product1 & WORD,
            ((product0 >> 32) & WORD) ^ c3 ^ k1,
            product0 & WORD,
        )
        k0, k1 = (k0 + KEY_STEPS[0]) & WORD, (k1 + KEY_STEPS[1]) & WORD
    return c0, c1, c2, c3


def words(seed: int, examples: torch.Tensor, draws: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """High and low 32-bit halves, int64[rows, count], of `count` 64-bit random numbers for each (example, draw)."""
    blocks = torch.arange((count + 1) // 2, device=examples.device)
    example, draw = examples[:, None], draws[:, None]
    w0, w1, w2, w3 = philox(key_of(seed), (blocks, draw & WORD, example & WORD, (draw >> 32) & WORD))
    high, low = torch.stack((w0, w2), dim=2), torch.stack((w1, w3), dim=2)
    return high.flatten(1)[:, :count], low.flatten(1)[:, :count]
