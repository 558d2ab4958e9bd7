"""Which files of an image folder cannot be decoded."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import numpy as np
import PIL

from sparsecert.checks import whole
from sparsecert.datasets.dataset import Dataset
from sparsecert.datasets.folder import FolderImages
from sparsecert.datasets.photograph import BadImage, opened
from sparsecert.datasets.workers import Workers, default_workers
from sparsecert.errors import InputError
from sparsecert.files import write_atomically

FILES_A_CALL = 32
CALLS_AHEAD = 4  # of each worker
NAMED = 3  # files of those skipped that a message names

OnProgress = Callable[[int, int], None]  # (files looked at so far, files in all)


def bad_files(
    images: FolderImages, workers: int | None = None, on_progress: OnProgress | None = None
) -> dict[str, str]:
    """Every file that gives no image, by its name below `images.root`, with the reason; in the order of the files.

    Each file is decoded whole, by `workers` processes: as many as this process may use CPUs, at most 16, unless given;
    0 decodes here. A file that the system cannot read (missing, no permission, a failing disk) is an InputError: it may
    be there again tomorrow, and what is bad should not depend on the day.
    """
    count = default_workers() if workers is None else whole("workers", workers, 0, 1_000)
    found: dict[str, str] = {}
    looked_at = 0
    calls = [images.files[i : i + FILES_A_CALL] for i in range(0, len(images), FILES_A_CALL)]
    for files, bad in zip(calls, _answers(str(images.root), calls, count), strict=True):
        found.update(bad)
        looked_at += len(files)
        if on_progress is not None:
            on_progress(looked_at, len(images))
    return found


def without_bad(data: Dataset, on_progress: OnProgress | None = None) -> Dataset:
    """The data set without the files that cannot be decoded, which it names; numbered as if they had never been there.

    What was found is remembered in the user's cache folder and taken from there as long as no file's name, length or
    time of change differs. Refuses to leave a class that has images without any.
    """
    if not isinstance(data.images, FolderImages):
        return data
    images = data.images
    bad = _recalled(images)
    if bad is None:
        bad = kept_bad_files(images, on_progress=on_progress)
    if not bad:
        return data
    good = np.array([file not in bad for file in images.files])
    emptied = sorted(set(data.labels.tolist()) - set(data.labels[good].tolist()))
    if emptied:
        file = images.files[int(np.flatnonzero(data.labels == emptied[0])[0])]
        raise InputError(
            f"no image of class {data.classes[emptied[0]]} in {images.root} can be decoded; the first, {file}, "
            f"{bad[file]}; replace them or remove the class"
        )
    left = FolderImages(images.root, tuple(file for file in images.files if file not in bad), images.size)
    return replace(data, images=left, labels=data.labels[good], skipped=tuple(bad))


def kept_bad_files(
    images: FolderImages, workers: int | None = None, on_progress: OnProgress | None = None
) -> dict[str, str]:
    """As `bad_files`, and keeps what it finds for the next `without_bad` of the same files, where that can be written.

    Of files as they were before they were looked at: one that is replaced meanwhile will be looked at again.
    """
    memory = _memory(images)
    bad = bad_files(images, workers, on_progress)
    with contextlib.suppress(InputError):
        if memory is not None:
            write_atomically(memory, json.dumps(bad).encode())
    return bad


def skipped_line(data: Dataset) -> str:
    """How many images were left out, and the first of them by name."""
    names = ", ".join(data.skipped[:NAMED]) + (", ..." if len(data.skipped) > NAMED else "")
    return f"skipped {len(data.skipped):,} of {len(data) + len(data.skipped):,} images that cannot be decoded: {names}"


def look(root: str, files: Sequence[str]) -> dict[str, str]:
    """The bad ones of these files, with the reason."""
    bad = {}
    for file in files:
        try:
            opened(Path(root, file))
        except BadImage as error:
            bad[file] = error.reason
    return bad


def _answers(root: str, calls: list[tuple[str, ...]], workers: int) -> Iterator[dict[str, str]]:
    if workers == 0:
        yield from (look(root, files) for files in calls)
        return
    with Workers(workers) as pool:
        coming: deque[Future[dict[str, str]]] = deque()
        for files in calls:
            coming.append(pool.submit(look, root, files))
            if len(coming) >= CALLS_AHEAD * workers:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()


def _memory(images: FolderImages) -> Path | None:
    """Where what was found in exactly these files is kept; None for a user without a home."""
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        return None
    digest = hashlib.sha256(f"Pillow {PIL.__version__}\n{images.root.resolve()}".encode(errors="surrogateescape"))
    for file in images.files:
        path = os.path.join(images.root, file)  # noqa: PTH118 (there may be a million)
        try:
            found = os.stat(path)  # noqa: PTH116
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}; restore it or load the folder again") from error
        digest.update(f"\n{file}\0{found.st_size} {found.st_mtime_ns}".encode(errors="surrogateescape"))
    return cache / "sparsecert" / "bad-files" / f"{digest.hexdigest()}.json"


def _recalled(images: FolderImages) -> dict[str, str] | None:
    memory = _memory(images)
    try:
        found: dict[str, str] | None = None if memory is None else json.loads(memory.read_bytes())
    except (OSError, ValueError):
        return None
    return found
