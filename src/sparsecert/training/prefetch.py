"""Prefetches the images of a folder: worker processes decode them ahead of time, then they are copied to the device."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from sparsecert.datasets.folder import FolderImages
from sparsecert.datasets.stream import Request, Stream
from sparsecert.datasets.workers import default_workers
from sparsecert.training.distributed import env_int

MAX_IN_FLIGHT = 2  # copies to a GPU: the host is never further ahead of it


class Prefetcher:
    """`pixels` holds the images of the current step; `load_next` copies in those of the next.

    The buffer stays at the same address, so that a captured step finds each batch in the same place.
    """

    def __init__(
        self,
        images: FolderImages,
        batch: int,
        device: torch.device,
        requests: Callable[[], Iterable[Request]],
        workers: int | None = None,
    ) -> None:
        self.pixels = torch.zeros(min(batch, len(images)), *images.shape, dtype=torch.uint8, device=device)
        self._requests = requests
        if workers is None:
            workers = default_workers(max(1, env_int("LOCAL_WORLD_SIZE", 1)))
        self._stream = Stream(images, workers, empty=_pinned if device.type == "cuda" else None)
        self._batches: Iterator[NDArray[np.uint8]] | None = None
        self._in_flight: deque[tuple[torch.Tensor, torch.cuda.Event]] = deque()

    def load_next(self) -> None:
        """Copies the next batch into `pixels`; the first call starts the workers."""
        if self._batches is None:
            self._batches = self._stream.__enter__().batches(self._requests())
        batch = torch.from_numpy(next(self._batches))
        self.pixels[: len(batch)].copy_(batch, non_blocking=True)
        if self.pixels.is_cuda:
            self._keep_until_copied(batch)

    def close(self) -> None:
        """Ends the workers."""
        self._batches = None
        self._stream.__exit__(None, None, None)

    def _keep_until_copied(self, batch: torch.Tensor) -> None:
        """The copy is asynchronous; until it is done, the batch's memory must not be reused."""
        copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
        copied.record(torch.cuda.current_stream(self.pixels.device))
        self._in_flight.append((batch, copied))
        while len(self._in_flight) > MAX_IN_FLIGHT:
            self._in_flight.popleft()[1].synchronize()


def _pinned(shape: tuple[int, ...]) -> NDArray[np.uint8]:
    array: NDArray[np.uint8] = torch.empty(shape, dtype=torch.uint8, pin_memory=True).numpy()
    return array
