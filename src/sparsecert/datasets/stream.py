"""Batches of photographs, decoded ahead of whoever uses them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsecert.checks import whole
from sparsecert.datasets.dataset import checked_indices
from sparsecert.datasets.folder import FolderImages
from sparsecert.datasets.views import View, decoded, view_of
from sparsecert.datasets.workers import Workers, default_workers

IMAGES_A_CALL = 16  # at most: some tens of milliseconds of work, so that no worker is waited for long

Bytes = NDArray[np.uint8]
Request = tuple[Sequence[int] | NDArray[np.int64], View]  # the images of a batch, and what is shown of each


class Stream:
    """Decodes the batches that are asked for in `workers` processes, at most `ahead` of them before they are used.

    Each batch is byte for byte what `images.viewed` gives for the same request, and they come in the order of the
    requests. A batch is shared out among all workers. No more than `ahead` + 1 batches are in memory besides those that
    the caller keeps, and requests are drawn from their iterator no further ahead than that, so they may be endless. A
    file that cannot be decoded raises its InputError when its batch is due. Leaving the block ends all processes.

        with Stream(data.images, workers=None, ahead=4) as stream:
            requests = ((order(epoch)[step], RandomCrop(seed, epoch)) for epoch in epochs for step in steps)
            for pixels in stream.batches(requests):  # uint8 [b, 3, size, size]
                ...

    `workers` is the number of CPUs this process may use, at most 16, unless given; 0 decodes in this process, when a
    batch is due. `empty` makes a new array for a batch; for a GPU, one in memory that it copies from by itself:

        Stream(images, empty=lambda shape: torch.empty(shape, dtype=torch.uint8, pin_memory=True).numpy())
    """

    def __init__(
        self,
        images: FolderImages,
        workers: int | None = None,
        ahead: int = 4,
        empty: Callable[[tuple[int, ...]], Bytes] | None = None,
    ) -> None:
        self.images, self.ahead = images, whole("ahead", ahead, 1, 1_000_000)
        self.workers = default_workers() if workers is None else whole("workers", workers, 0, 1_000)
        self._empty = empty or _plain
        self._pool: Workers | None = None
        self._open = ExitStack()

    def __enter__(self) -> Stream:
        if self.workers:
            self._pool = self._open.enter_context(Workers(self.workers))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()
        self._pool = None

    def batches(self, requests: Iterable[Request]) -> Iterator[Bytes]:
        """The batches of these requests, in their order."""
        if self.workers == 0:
            for indices, view in requests:
                pixels = self._empty((len(indices), *self.images.shape))
                pixels[:] = self.images.viewed(indices, view)
                yield pixels
            return
        if self._pool is None:
            raise RuntimeError("a stream is open within its `with` block only")
        coming: deque[_Batch] = deque()
        left = iter(requests)
        try:
            while True:
                for request in left:
                    coming.append(self._begun(self._pool, *request))
                    if len(coming) > self.ahead:
                        break
                if not coming:
                    return
                yield coming.popleft().whole()
        finally:
            for batch in coming:
                batch.cancel()

    def _begun(self, pool: Workers, indices: Sequence[int] | NDArray[np.int64], view: View) -> _Batch:
        wanted = checked_indices(indices, len(self.images)).tolist()
        pixels = self._empty((len(wanted), *self.images.shape))
        root, size = str(self.images.root), self.images.size
        share = max(1, min(IMAGES_A_CALL, -(-len(wanted) // pool.count)))
        parts = []
        for start in range(0, len(wanted), share):
            part = wanted[start : start + share]
            files = [(index, self.images.files[index]) for index in part]
            into = pixels[start : start + share]
            parts.append(pool.submit(decode_files, root, files, view.config(), size, into=into))
        return _Batch(pixels, parts)


class _Batch:
    """A batch that is being decoded, in parts."""

    def __init__(self, pixels: Bytes, parts: list[Future[Any]]) -> None:
        self._pixels, self._parts = pixels, parts

    def whole(self) -> Bytes:
        """The pixels, once all parts are there."""
        try:
            for part in self._parts:
                part.result()
        except BaseException:
            self.cancel()
            raise
        return self._pixels

    def cancel(self) -> None:
        """Leaves out the parts that were not begun."""
        for part in self._parts:
            part.cancel()


def decode_files(root: str, files: list[tuple[int, str]], config: dict[str, Any], size: int) -> Bytes:
    """What a view shows of these files, each given with its number in the data set, as uint8 [b, 3, size, size]."""
    view = view_of(config)
    pixels = np.empty((len(files), 3, size, size), dtype=np.uint8)
    for row, (index, file) in zip(pixels, files, strict=True):
        row[:] = decoded(Path(root, file), view, size, index)
    return pixels


def _plain(shape: tuple[int, ...]) -> Bytes:
    return np.empty(shape, dtype=np.uint8)
