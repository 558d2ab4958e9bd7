"""Data-parallel training of one model by several processes, each on its shard of every batch.

Start them with `torchrun`. Gradients are summed over the processes and batch norm takes its statistics over the whole
batch, so the weights are those that one process would have trained, up to rounding.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import torch
import torch.distributed as dist

from sparsecert.errors import InputError

T = TypeVar("T")


@dataclass(frozen=True)
class ProcessGroup:
    """This process's rank among the `size` processes that train one model; by default it is alone."""

    rank: int = 0
    size: int = 1

    @property
    def is_main(self) -> bool:
        """Whether this is rank 0, which alone reads and writes the run's folder."""
        return self.rank == 0

    def shard(self, batch: int) -> range:
        """The positions within a batch that this process takes; shard sizes differ by at most one."""
        return range(batch * self.rank // self.size, batch * (self.rank + 1) // self.size)

    def all_reduce(self, tensors: Sequence[torch.Tensor]) -> None:
        """Replaces each tensor, all of one dtype, by its sum over the processes, in one message."""
        if self.size == 1:
            return
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        dist.all_reduce(flat)
        totals = torch.split(flat, [tensor.numel() for tensor in tensors])
        for tensor, total in zip(tensors, totals, strict=True):
            tensor.copy_(total.view_as(tensor))

    def broadcast(self, value: T) -> T:
        """The main process's `value`, in every process."""
        if self.size == 1:
            return value
        box: list[Any] = [value]
        dist.broadcast_object_list(box)
        return box[0]  # type: ignore[no-any-return]

    def broadcast_tensors(self, tensors: Sequence[torch.Tensor]) -> None:
        """Overwrites each tensor with the main process's."""
        if self.size > 1:
            for tensor in tensors:
                dist.broadcast(tensor, 0)

    def check_same(self, settings: dict[str, Any]) -> None:
        """Refuses to continue if a process would train something else, such as other data on its machine."""
        others: list[Any] = [None] * self.size
        if self.size > 1:
            dist.all_gather_object(others, settings)
        for rank, other in enumerate(others if self.size > 1 else []):
            for name, value in others[0].items():
                if other.get(name) != value:
                    raise InputError(
                        f"{name} of process {rank} differs from that of process 0; give all processes the same"
                    )

    def check_batch(self, smallest: int) -> None:
        """Refuses batches that leave a process without inputs."""
        if smallest < self.size:
            raise InputError(f"the smallest batch has {smallest} inputs, fewer than the {self.size} processes")


@contextmanager
def join_process_group(device: str) -> Iterator[tuple[ProcessGroup, str]]:
    """The process group that torchrun's environment names, and this process's device; alone without torchrun."""
    size = env_int("WORLD_SIZE", 1)
    if size <= 1 or dist.is_initialized():
        yield (
            (ProcessGroup(dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else ProcessGroup()),
            device,
        )
        return
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        if name not in os.environ:
            raise InputError(f"WORLD_SIZE is {size} but {name} is not set; start by torchrun, or unset WORLD_SIZE")
    if device.startswith("cuda"):
        device = _local_gpu(device)
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.startswith("cuda") else "gloo")
    yield ProcessGroup(dist.get_rank(), dist.get_world_size()), device
    dist.barrier()  # nobody leaves while another still has messages in flight
    dist.destroy_process_group()  # not after a failure here: it might wait for others, who wait for this process


def env_int(name: str, default: int) -> int:
    """An integer that torchrun sets in the environment."""
    text = os.environ.get(name, str(default))
    if not text.isdecimal():
        raise InputError(f"{name} must be a whole number, as torchrun sets it, got {text!r}; unset it")
    return int(text)


def exit_process() -> NoReturn:
    """Ends this process of a group at once, with everything flushed.

    A torch thread that outlives the group and frees a tensor during interpreter shutdown aborts the process (seen with
    gloo, torch 2.13, Python 3.11), and torchrun then reports a finished run as failed.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _local_gpu(device: str) -> str:
    """This process's own GPU, by its local rank."""
    rank, processes = env_int("LOCAL_RANK", 0), env_int("LOCAL_WORLD_SIZE", 1)
    if device != "cuda" and processes > 1:
        raise InputError(f"device must be cuda for {processes} processes with a GPU each, got {device}")
    if processes > torch.cuda.device_count():
        raise InputError(f"{processes} processes need a GPU each, there are {torch.cuda.device_count()}; start fewer")
    return f"cuda:{rank}" if device == "cuda" else device
