"""Gathers requests for a fixed set of masks into batches: one election of many inputs costs little more than of one.

The votes of all requests share forward passes anyway (`batching`). The rest of a procedure takes about as long for
dozens of inputs as for one, and where forward passes are fast it limits the rate. A deterministic answer depends on its
input alone, so it is the same in any batch.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import torch

from sparsecert.service.batching import Batcher, Begin

T = TypeVar("T")


@dataclass(eq=False)
class SharedJob(Generic[T]):
    """Inputs that become one job, and its result."""

    inputs: list[torch.Tensor] = field(default_factory=list)
    done: asyncio.Future[T] | None = None


class Gathering:
    """Inputs of requests that ask the same gather until the device thread begins with them, at most `most`."""

    def __init__(self, batcher: Batcher, most: int) -> None:
        self._batcher, self._most = batcher, most
        self._open: dict[Hashable, SharedJob[Any]] = {}
        self._lock = threading.Lock()

    async def result(
        self, asked: Hashable, x: torch.Tensor, begin: Callable[[torch.Tensor], Begin[T]]
    ) -> tuple[T, int]:
        """The result of a job that has the input x, Float[1, ...], and its row there.

        `asked` and the shape of x say which requests may share a job; `begin` makes one of all their inputs.
        """
        key = asked, x.shape
        with self._lock:
            group = self._open.get(key)
            if group is None:
                group = self._open[key] = self._submit(key, begin)
            row = len(group.inputs)
            group.inputs.append(x)
            if len(group.inputs) == self._most:
                del self._open[key]
        assert group.done is not None
        return await asyncio.shield(group.done), row  # one client that leaves does not cancel the others

    def _submit(self, key: Hashable, begin: Callable[[torch.Tensor], Begin[T]]) -> SharedJob[T]:
        group: SharedJob[T] = SharedJob()

        def begin_all(voter: Any, queue: Any) -> Any:  # in the device thread
            with self._lock:
                if self._open.get(key) is group:
                    del self._open[key]
            return begin(torch.cat(group.inputs))(voter, queue)

        group.done = asyncio.wrap_future(self._batcher.submit(begin_all).done)
        return group
