"""Unpacking an untrusted tar file."""

from __future__ import annotations

import gzip
import shutil
import tarfile
import tempfile
import zlib
from pathlib import Path, PurePosixPath

from sparsecert.errors import InputError


def unpack(archive: Path, root: str, target: Path) -> None:
    """Extracts the folder `root` of a tar file to `target`, which appears only once it is complete.

    Nothing is written outside a temporary folder beside `target`: links, devices, absolute paths and paths with ".."
    are refused, and files outside `root` are skipped. Disk errors are raised as OSError.
    """
    with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=target.parent) as temporary:
        kept = Path(temporary) / "kept"
        try:
            with tarfile.open(archive) as tar:
                for member in tar:
                    _extract(tar, member, archive, root, kept)
        except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
            reason = " ".join(str(error).split())
            raise InputError(f"{archive} cannot be unpacked ({reason}); delete it and run this again") from error
        if not kept.is_dir():
            raise InputError(f"{archive} does not hold the folder {root}; delete it and run this again")
        kept.replace(target)


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, archive: Path, root: str, kept: Path) -> None:
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts or "\\" in member.name or ":" in member.name:
        raise InputError(f"{archive} holds the unsafe path {member.name!r}; do not use this archive")
    if member.isdir():
        return
    content = tar.extractfile(member) if member.isreg() else None
    if content is None:
        raise InputError(f"{archive} holds {member.name!r}, which is not a regular file; do not use this archive")
    with content:
        if path.parts[0] == root and len(path.parts) > 1:
            file = kept.joinpath(*path.parts[1:])
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("wb") as out:
                shutil.copyfileobj(content, out)
