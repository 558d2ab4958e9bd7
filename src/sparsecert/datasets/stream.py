"""Batches of images from a folder, decoded ahead of their use."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsecert.datasets.folder import FolderImages
from sparsecert.datasets.views import View, load_view, view_from_config
from sparsecert.datasets.workers import Workers, default_workers
from sparsecert.errors import check_int
from sparsecert.inputs.images import Indices, check_indices

IMAGES_PER_CALL = 16  # at most: tens of milliseconds of work, so that no worker is waited for long

Bytes = NDArray[np.uint8]
Request = tuple[Indices, View]  # the images of a batch, and how they are cropped


class Stream:
    """Decodes requested batches in `workers` processes, at most `ahead` batches before they are used.

    Batches come in the order of the requests, each byte for byte what `images.load_views` returns. All workers share a
    batch. At most `ahead` + 1 batches are in memory besides those the caller keeps, and requests are consumed no
    further ahead than that, so they may be infinite. A file that cannot be decoded raises its InputError when its batch
    is due. Leaving the block ends all workers.

        with Stream(data.images, workers=None, ahead=4) as stream:
            requests = ((order(epoch)[step], RandomCrop(seed, epoch)) for epoch in epochs for step in steps)
            for pixels in stream.batches(requests):  # uint8 [b, 3, size, size]
                ...

    `workers` defaults to the number of available CPUs, at most 16; 0 decodes in this process, when a batch is due.
    `empty` allocates the array of a batch, for a GPU in pinned memory:

        Stream(images, empty=lambda shape: torch.empty(shape, dtype=torch.uint8, pin_memory=True).numpy())
    """

    def __init__(
        self,
        images: FolderImages,
        workers: int | None = None,
        ahead: int = 4,
        empty: Callable[[tuple[int, ...]], Bytes] | None = None,
    ) -> None:
        self.images, self.ahead = images, check_int("ahead", ahead, 1, 1_000_000)
        self.workers = default_workers() if workers is None else check_int("workers", workers, 0, 1_000)
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
        if self.workers == 0:
            for indices, view in requests:
                pixels = self._empty((len(indices), *self.images.shape))
                pixels[:] = self.images.load_views(indices, view)
                yield pixels
            return
        if self._pool is None:
            raise RuntimeError("a stream is open within its `with` block only")
        pending: deque[_Batch] = deque()
        remaining = iter(requests)
        try:
            while True:
                for request in remaining:
                    pending.append(self._submit(self._pool, *request))
                    if len(pending) > self.ahead:
                        break
                if not pending:
                    return
                yield pending.popleft().result()
        finally:
            for batch in pending:
                batch.cancel()

    def _submit(self, pool: Workers, indices: Indices, view: View) -> _Batch:
        wanted = check_indices(indices, len(self.images)).tolist()
        pixels = self._empty((len(wanted), *self.images.shape))
        root, shape = str(self.images.root), self.images.shape
        share = max(1, min(IMAGES_PER_CALL, -(-len(wanted) // pool.count)))
        parts = []
        for start in range(0, len(wanted), share):
            part = wanted[start : start + share]
            files = [(index, self.images.files[index]) for index in part]
            into = pixels[start : start + share]
            parts.append(pool.submit(decode_files, root, files, view.config(), shape, into=into))
        return _Batch(pixels, parts)


class _Batch:
    """A batch being decoded, in parts."""

    def __init__(self, pixels: Bytes, parts: list[Future[Any]]) -> None:
        self._pixels, self._parts = pixels, parts

    def result(self) -> Bytes:
        """Waits for all parts."""
        try:
            for part in self._parts:
                part.result()
        except BaseException:
            self.cancel()
            raise
        return self._pixels

    def cancel(self) -> None:
        for part in self._parts:
            part.cancel()


def decode_files(root: str, files: list[tuple[int, str]], config: dict[str, Any], shape: list[int]) -> Bytes:
    """A view of these (index, file) pairs, as uint8 [b, *shape]."""
    view = view_from_config(config)
    pixels = np.empty((len(files), *shape), dtype=np.uint8)
    for row, (index, file) in zip(pixels, files, strict=True):
        row[:] = load_view(Path(root, file), view, shape, index)
    return pixels


def _plain(shape: tuple[int, ...]) -> Bytes:
    return np.empty(shape, dtype=np.uint8)
