"""Atomic writes, files with a single writer, and the hash of a file."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from sparsecert.errors import InputError


def write_atomically(path: Path, data: bytes) -> None:
    """Writes all of `data` to `path`; if it fails, or the process is killed, `path` is unchanged."""
    with writing_atomically(path) as file:
        file.write(data)


@contextmanager
def writing_atomically(path: Path) -> Iterator[IO[bytes]]:
    """A file that replaces `path` once it is complete; on failure `path` is unchanged."""
    with unwritable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            with part.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


@contextmanager
def unwritable(path: Path, lost: str = "nothing was overwritten") -> Iterator[None]:
    """Turns an OSError on writing (no space, no permission, no such folder) into a one-line InputError."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}; {lost}") from error


def lock(file: IO[Any], path: Path) -> None:
    """Makes this process the only writer until the file is closed or the process ends."""
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            import fcntl

            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise InputError(f"{path} is being written by another run; wait for it or write to another file") from error


@contextmanager
def sole_writer(folder: Path, names: Sequence[str]) -> Iterator[None]:
    """Makes this process the only writer of `names` in `folder`, which is created if missing.

    Removes temporary files that a killed process left behind.
    """
    path = folder / ".lock"
    with unwritable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        file = path.open("a")
    with contextlib.closing(file):
        lock(file, folder)
        for name in names:
            for part in folder.glob(f".{name}.*.part"):
                part.unlink()
        yield


def file_hash(path: str | Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    return hashlib.sha256(Path(path).expanduser().read_bytes()).hexdigest()
