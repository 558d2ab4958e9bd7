"""The processes that train one model together, each on its part of every batch.

Started by `torchrun`, which tells each process its place; gradients are added up over all of them, and batch norm takes
its statistics over the whole batch, so that the weights are those that one process would have trained on it, but for
rounding.
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
class Team:
    """This process's place among `size` that train together; alone by default."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process is the one that reads and writes the run's folder."""
        return self.rank == 0

    def part(self, batch: int) -> range:
        """The places within a batch that are this process's; the parts differ by one at most."""
        return range(batch * self.rank // self.size, batch * (self.rank + 1) // self.size)

    def add_up(self, tensors: Sequence[torch.Tensor]) -> None:
        """Replaces each tensor, all of one type, by its sum over the processes, in one message."""
        if self.size == 1:
            return
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        dist.all_reduce(flat)
        totals = torch.split(flat, [tensor.numel() for tensor in tensors])
        for tensor, total in zip(tensors, totals, strict=True):
            tensor.copy_(total.view_as(tensor))

    def on_progress(self, value: T) -> T:
        """What the leading process has for `value`, in every process."""
        if self.size == 1:
            return value
        box: list[Any] = [value]
        dist.broadcast_object_list(box)
        return box[0]  # type: ignore[no-any-return]

    def copy_from_leader(self, tensors: Sequence[torch.Tensor]) -> None:
        """Makes each tensor what it is in the leading process."""
        if self.size > 1:
            for tensor in tensors:
                dist.broadcast(tensor, 0)

    def check_same(self, facts: dict[str, Any]) -> None:
        """Refuses to go on where a process would train something else, such as other data on its machine."""
        others: list[Any] = [None] * self.size
        if self.size > 1:
            dist.all_gather_object(others, facts)
        for rank, other in enumerate(others if self.size > 1 else []):
            for name, value in others[0].items():
                if other.get(name) != value:
                    raise InputError(f"process {rank} has another {name} than process 0; give all of them the same")

    def check_batch(self, smallest: int) -> None:
        """Refuses batches that leave a process without a part."""
        if smallest < self.size:
            raise InputError(f"the smallest batch has {smallest} inputs, fewer than the {self.size} processes")


@contextmanager
def joined(device: str) -> Iterator[tuple[Team, str]]:
    """This process's team, as torchrun's environment says, and its own device; alone without torchrun."""
    size = told_number("WORLD_SIZE", 1)
    if size <= 1 or dist.is_initialized():
        yield (Team(dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else Team()), device
        return
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        if name not in os.environ:
            raise InputError(f"WORLD_SIZE is {size} but {name} is not set; start by torchrun, or unset WORLD_SIZE")
    if device.startswith("cuda"):
        device = _own_gpu(device)
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.startswith("cuda") else "gloo")
    yield Team(dist.get_rank(), dist.get_world_size()), device
    dist.barrier()  # nobody leaves while another still has messages under way
    dist.destroy_process_group()  # not after a failure here: it might wait for others, who wait for this process


def told_number(name: str, otherwise: int) -> int:
    """What torchrun's environment says under this name."""
    text = os.environ.get(name, str(otherwise))
    if not text.isdecimal():
        raise InputError(f"{name} must be a whole number, as torchrun sets it, got {text!r}; unset it")
    return int(text)


def leave() -> NoReturn:
    """Ends this process of a team at once, with everything written.

    A thread of torch's that outlives the group and lets go of a tensor while the interpreter is being taken down aborts
    the process (seen with gloo, torch 2.13, Python 3.11), and torchrun then takes a finished run for a failed one.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _own_gpu(device: str) -> str:
    """The GPU of this process, one of as many as there are processes on this machine."""
    place, processes = told_number("LOCAL_RANK", 0), told_number("LOCAL_WORLD_SIZE", 1)
    if device != "cuda" and processes > 1:
        raise InputError(f"device must be cuda where {processes} processes each take a GPU of their own, got {device}")
    if processes > torch.cuda.device_count():
        raise InputError(f"{processes} processes need a GPU each, there are {torch.cuda.device_count()}; start fewer")
    return f"cuda:{place}" if device == "cuda" else device
