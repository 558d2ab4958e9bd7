"""Devices by name, and what each can do."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec

import torch
from torch.nn.functional import conv2d, linear

from sparsecert.errors import InputError

FIRST_TENSOR_CORES = {torch.bfloat16: (8, 0), torch.float16: (7, 0)}  # compute capability of a GPU
FUSED_BY_ONEDNN = "_convolution_pointwise", "_convolution_pointwise_", "_linear_pointwise", "_reorder_linear_weight"
BF16_INSTRUCTIONS = "_is_avx512_bf16_supported", "_is_amx_tile_supported"  # of torch.cpu


@dataclass(frozen=True)
class Support:
    """What a device offers beyond plain fp32 operations, which every device has.

    hardware: types that it multiplies in hardware, besides float32. fused: types for which the running torch has fused
    operations there, oneDNN's on a CPU and cuDNN's on a GPU. kernels: whether Triton can compile kernels for it.
    """

    hardware: frozenset[torch.dtype] = frozenset()
    fused: frozenset[torch.dtype] = frozenset()
    kernels: bool = False


def support(device: torch.device) -> Support:
    """The capability probe: whatever needs more than plain operations asks here, and has a plain path behind it."""
    if device.type == "cuda":
        index = torch.cuda.current_device() if device.index is None else device.index
        return _cuda_support(index, torch.backends.cudnn.enabled)
    return _cpu_support() if device.type == "cpu" else Support()


def native_precision(device: torch.device) -> str:
    """The fastest precision of forward passes: bf16 where the device multiplies it in hardware, otherwise fp32."""
    return "bf16" if torch.bfloat16 in support(device).hardware else "fp32"


def check_precision(name: str, dtype: torch.dtype | None, device: torch.device) -> None:
    """Says where a device only emulates this precision, and refuses it where not even that can be computed there."""
    if dtype is None or dtype in support(device).hardware:
        return
    pixel = torch.ones(1, 1, 1, 1, device=device, requires_grad=True)
    try:
        with torch.enable_grad(), torch.autocast(device.type, dtype=dtype):
            linear(conv2d(pixel, pixel).flatten(1), pixel.flatten(1)).sum().backward()  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{name} cannot be computed on this device ({device.type}): {reason}; use fp32") from error
    warnings.warn(f"{name} is emulated on this device ({device.type}): fp32 is faster", stacklevel=5)


@contextmanager
def tf32_products(device: torch.device, allowed: bool = True) -> Iterator[None]:
    """On a GPU, fp32 matrix products in TF32 if it has it, as convolutions are by default; in fp32 if not `allowed`."""
    precision = torch.get_float32_matmul_precision()
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high" if allowed else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)


def capture(
    work: Callable[[], None], what: str, pool: torch.cuda.CUDAGraph | None = None
) -> torch.cuda.CUDAGraph | None:
    """Work on the current GPU, done before, as a CUDA graph; None, with a warning, where it cannot be captured.

    It must read and write the same memory each time, and wait for nothing on the host. Graphs that share the `pool` of
    another overwrite each other's intermediate results.
    """
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=None if pool is None else pool.pool()):
            work()
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        reason = (str(error).splitlines() or [""])[0]
        warnings.warn(f"{what} cannot be captured here ({reason}), and is slower", stacklevel=2)
        return None
    return graph


def device_named(name: str) -> str:
    """The device to use: `auto` takes cuda, then mps, then cpu."""
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


def _cpu_support() -> Support:
    """oneDNN's own answer about bf16 counts: it may be held to older instructions than the CPU has."""
    if not torch._C._has_mkldnn or not torch.backends.mkldnn.enabled:
        return Support()
    if not all(hasattr(torch.ops.mkldnn, name) for name in FUSED_BY_ONEDNN):
        return Support()
    takes_bf16 = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
    if takes_bf16 is None or not takes_bf16():
        return Support(fused=frozenset({torch.float32}))
    in_hardware = any(getattr(torch.cpu, name, lambda: False)() for name in BF16_INSTRUCTIONS)
    return Support(frozenset({torch.bfloat16} if in_hardware else ()), frozenset({torch.float32, torch.bfloat16}))


@cache
def _cuda_support(index: int, has_cudnn: bool) -> Support:
    capability = torch.cuda.get_device_capability(index)
    types = frozenset(dtype for dtype, first in FIRST_TENSOR_CORES.items() if capability >= first)
    if torch.version.cuda is None or not has_cudnn:
        types = frozenset()
    return Support(types, types, _has_triton(torch.device("cuda", index)))


def _has_triton(device: torch.device) -> bool:
    """Whether a kernel compiles and gives the right masks: Triton needs a recent GPU and a C compiler."""
    if find_spec("triton") is None:
        return False
    numbers = torch.arange(2, device=device)
    try:
        from sparsecert.schemes import subsets, subsets_triton

        return torch.equal(subsets_triton.subsets(0, numbers, numbers, 8, 3), subsets.drawn(0, numbers, numbers, 8, 3))
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        warnings.warn(f"Triton cannot compile kernels here ({reason}); plain operations are used", stacklevel=2)
        return False
