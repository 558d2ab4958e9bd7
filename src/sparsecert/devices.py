"""Devices by name."""

from __future__ import annotations

from sparsecert.errors import InputError


def device_named(name: str) -> str:
    """The device to use: `auto` takes cuda, then mps, then cpu."""
    import torch

    if name == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        if name.split(":")[0] not in ("cpu", "cuda", "mps"):
            raise RuntimeError("it is not one of cpu, cuda, mps")
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0].split(". ")[0]
        raise InputError(f"device {name!r} cannot be used here: {reason[:200]}") from error
    return name
