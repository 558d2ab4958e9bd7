"""Finding the files of an image folder that cannot be decoded."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import numpy as np

from sparsecert.datasets.folder import FolderImages
from sparsecert.datasets.image_file import BadImage, open_rgb
from sparsecert.datasets.workers import Workers, default_workers
from sparsecert.errors import InputError, check_int
from sparsecert.files import write_atomically
from sparsecert.inputs.images import Dataset
from sparsecert.progress import OnProgress, ignore

FILES_PER_CALL = 32
CALLS_AHEAD = 4  # per worker
MAX_NAMED = 3  # skipped files that a message names


def find_bad_files(
    images: FolderImages, workers: int | None = None, on_progress: OnProgress = ignore
) -> dict[str, str]:
    """The files that cannot be decoded, by their path below `images.root`, each with the reason; in file order.

    Every file is decoded completely, by `workers` processes (default: one per available CPU, at most 16; 0 decodes in
    this process). A file that the system cannot read (missing, no permission, a failing disk) raises an InputError: it
    may be readable tomorrow, so it is not a bad file.
    """
    count = default_workers() if workers is None else check_int("workers", workers, 0, 1_000)
    found: dict[str, str] = {}
    done = 0
    calls = [images.files[i : i + FILES_PER_CALL] for i in range(0, len(images), FILES_PER_CALL)]
    for files, bad in zip(calls, _decode_all(str(images.root), calls, count), strict=True):
        found.update(bad)
        done += len(files)
        on_progress(done, len(images))
    return found


def drop_bad_files(data: Dataset, on_progress: OnProgress = ignore) -> Dataset:
    """The data set without the files that cannot be decoded; `skipped` names them, and they have no index.

    The result is cached in the user's cache folder, for as long as no file's name, length or modification time
    changes. Refuses to empty a class.
    """
    if not isinstance(data.images, FolderImages):
        return data
    images = data.images
    bad = _read_cache(images)
    if bad is None:
        bad = find_and_cache_bad_files(images, on_progress=on_progress)
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
    left = replace(images, files=tuple(file for file in images.files if file not in bad))
    return replace(data, images=left, labels=data.labels[good], skipped=tuple(bad))


def find_and_cache_bad_files(
    images: FolderImages, workers: int | None = None, on_progress: OnProgress = ignore
) -> dict[str, str]:
    """Like `find_bad_files`, but caches the result for the next `drop_bad_files`, if the cache is writable.

    The cache key is taken before decoding: a file that is replaced meanwhile will be decoded again.
    """
    cache = _cache_file(images)
    bad = find_bad_files(images, workers, on_progress)
    with contextlib.suppress(InputError):
        if cache is not None:
            write_atomically(cache, json.dumps(bad).encode())
    return bad


def describe_skipped(data: Dataset) -> str:
    """One line: how many images were skipped, and the names of the first."""
    names = ", ".join(data.skipped[:MAX_NAMED]) + (", ..." if len(data.skipped) > MAX_NAMED else "")
    return f"skipped {len(data.skipped):,} of {len(data) + len(data.skipped):,} images that cannot be decoded: {names}"


def decode_errors(root: str, files: Sequence[str]) -> dict[str, str]:
    bad = {}
    for file in files:
        try:
            open_rgb(Path(root, file))
        except BadImage as error:
            bad[file] = error.reason
    return bad


def _decode_all(root: str, calls: list[tuple[str, ...]], workers: int) -> Iterator[dict[str, str]]:
    if workers == 0:
        yield from (decode_errors(root, files) for files in calls)
        return
    with Workers(workers) as pool:
        pending: deque[Future[dict[str, str]]] = deque()
        for files in calls:
            pending.append(pool.submit(decode_errors, root, files))
            if len(pending) >= CALLS_AHEAD * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def _cache_file(images: FolderImages) -> Path | None:
    """Where the result for exactly these files is cached; None for a user without a home."""
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        return None
    import PIL

    digest = hashlib.sha256(f"Pillow {PIL.__version__}\n{images.root.resolve()}".encode(errors="surrogateescape"))
    for file in images.files:
        path = os.path.join(images.root, file)  # noqa: PTH118 (there may be a million)
        try:
            stat = os.stat(path)  # noqa: PTH116
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}; restore it or load the folder again") from error
        digest.update(f"\n{file}\0{stat.st_size} {stat.st_mtime_ns}".encode(errors="surrogateescape"))
    return cache / "sparsecert" / "bad-files" / f"{digest.hexdigest()}.json"


def _read_cache(images: FolderImages) -> dict[str, str] | None:
    cache = _cache_file(images)
    try:
        bad: dict[str, str] | None = None if cache is None else json.loads(cache.read_bytes())
    except (OSError, ValueError):
        return None
    return bad
