"""The number of ablated copies per forward pass, from the free memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

CPU_BYTES = 32 << 20  # larger chunks are no faster on a CPU: their memory is returned and faulted in again
CPU_ROWS = 32  # at least this many rows, if they fit: they share each read of the weights
MOST_ROWS = 1 << 16
SHARE = 0.5  # of the free memory: the rest is for workspaces that the estimate misses, and for other processes


def chunk_rows(bytes_per_row: int, device: torch.device) -> int:
    """The largest power of two of rows that fits into a SHARE of the free memory; at least 1."""
    budget, each = int(free_bytes(device) * SHARE), max(1, bytes_per_row)
    fitting = budget // each
    if device.type == "cpu":
        fitting = min(fitting, max(CPU_ROWS, CPU_BYTES // each))
    rows = max(1, min(MOST_ROWS, fitting))
    return 1 << (rows.bit_length() - 1)


def free_bytes(device: torch.device) -> int:
    """Free memory of the device; MPS shares the system's."""
    if device.type == "cuda":
        # torch's cache is free too
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + kept
    return _cgroup_free(_system_free())


def _system_free() -> int:
    """Memory available without swapping; 2 GiB where unknown."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:  # noqa: PTH123
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) << 10
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (ValueError, OSError, AttributeError):
        return 2 << 30


def _cgroup_free(system: int) -> int:
    """The same within the container's limit, if any."""
    try:
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as limit:  # noqa: PTH123
            most = int(limit.read())
        with open("/sys/fs/cgroup/memory.current", encoding="ascii") as used:  # noqa: PTH123
            return min(system, max(0, most - int(used.read())))
    except (OSError, ValueError):
        return system


@contextmanager
def counting_outputs(model: Any) -> Iterator[Callable[[], int]]:
    """Counts the bytes that all submodules output during calls inside: an upper estimate of the activations."""
    seen = 0

    def count(_module: torch.nn.Module, _inputs: Any, output: Any) -> None:
        nonlocal seen
        if isinstance(output, torch.Tensor):
            seen += output.numel() * output.element_size()

    hookable = isinstance(model, torch.nn.Module) and not isinstance(model, torch.jit.ScriptModule)
    modules = list(model.modules()) if hookable else []
    hooks = [module.register_forward_hook(count) for module in modules]
    try:
        yield lambda: seen
    finally:
        for hook in hooks:
            hook.remove()
