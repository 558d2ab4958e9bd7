"""Uniformly random subsets of a fixed size, one per row, by Floyd's algorithm.

Bentley & Floyd, "Programming Pearls: A Sample of Brilliance", CACM 30(9), 1987. To choose k of d: for j = d-k, ..., d-1
draw t uniform on {0, ..., j}; take t, or j if t is already taken. By induction, after the step for j the set is uniform
over the subsets of {0, ..., j} of its size m + 1: a set that holds j arises from its m other members and a t that is
one of them or j itself, with probability (m + 1) / ((j + 1) C(j, m)) = 1 / C(j + 1, m + 1); a set that lacks j arises
in m + 1 ways, by which member came last, with the same probability. It needs k random numbers, not d, and no sorting.
"""

from __future__ import annotations

import torch

from sparsecert import devices
from sparsecert.schemes.philox import words


def scale_words(high: torch.Tensor, low: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
    """floor(r * size / 2**64) for the 64-bit r = high * 2**32 + low, without leaving int64 (size < 2**31)."""
    return (high * sizes + ((low * sizes) >> 32)) >> 32


def floyd(choices: torch.Tensor, units: int) -> torch.Tensor:
    """Bool[rows, units]: the subset Floyd's algorithm takes when step i draws choices[:, i] from {0, .., d-k+i}."""
    rows, size = choices.shape
    taken = torch.zeros(rows, units, dtype=torch.bool, device=choices.device)
    for step in range(size):
        choice = choices[:, step : step + 1]
        fresh = torch.where(taken.gather(1, choice), units - size + step, choice)
        taken.scatter_(1, fresh, True)
    return taken


def subsets(seed: int, examples: torch.Tensor, draws: torch.Tensor, units: int, size: int) -> torch.Tensor:
    """Bool[rows, units] with exactly `size` True in each row, a pure function of (seed, example, draw).

    On a CUDA device one kernel draws the same masks, where Triton can compile it.
    """
    if examples.is_cuda and size and devices.support(examples.device).kernels:
        from sparsecert.schemes import subsets_triton

        return subsets_triton.subsets(seed, examples, draws, units, size)
    return drawn(seed, examples, draws, units, size)


def drawn(seed: int, examples: torch.Tensor, draws: torch.Tensor, units: int, size: int) -> torch.Tensor:
    """`subsets` by tensor operations, on any device."""
    high, low = words(seed, examples, draws, size)
    sizes = torch.arange(units - size + 1, units + 1, device=examples.device)
    return floyd(scale_words(high, low, sizes), units)
