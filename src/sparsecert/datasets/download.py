"""Downloading the public data sets: fetch, verify, move into place; what is in place is always complete."""

from __future__ import annotations

import hashlib
import http.client
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from sparsecert.datasets import archive, load
from sparsecert.datasets.entry import RemoteFile
from sparsecert.datasets.location import data_folder
from sparsecert.errors import InputError
from sparsecert.progress import OnProgress, ignore
from sparsecert.registry import DATASETS

TIMEOUT_S = 30
CHUNK = 1 << 18


@dataclass(frozen=True)
class DownloadResult:
    """What `get` did: the files and folders it added (none if nothing was needed), and a line that says so."""

    name: str
    added: tuple[Path, ...]
    message: str


def get(
    name: str,
    data_dir: str | Path | None = None,
    on_progress: OnProgress = ignore,
    base_urls: Mapping[str, str] | None = None,
) -> DownloadResult:
    """Makes `load(name, split, data_dir)` work for both splits, downloading only what is missing.

    `on_progress(bytes_done, bytes_total)` is called during each file; the total is 0 if the server does not tell.
    `base_urls` maps a data set's name to a mirror with the same files; checksums are verified all the same.
    """
    folder = data_folder(data_dir)
    entry = DATASETS[name]
    if entry.ships:
        return DownloadResult(name, (), f"{name} ships with the package; there is nothing to get")
    if not entry.sources:
        raise InputError(f"{name} cannot be downloaded: {entry.obtain.format(data_dir=folder)}")
    if _load_error(name, folder) is None:
        return DownloadResult(name, (), f"{name} is already complete in {folder}; nothing to do")
    sources = [_from_mirror(source, (base_urls or {}).get(name)) for source in entry.sources]
    added = tuple(folder / (source.unpacked or source.path) for source in sources if fetch(source, folder, on_progress))
    error = _load_error(name, folder)
    if error is not None:
        raise InputError(f"{name} in {folder} is still unusable: {error}; delete what is there and run this again")
    return DownloadResult(name, added, f"{name} is ready in {folder}")


def fetch(source: RemoteFile, data_dir: Path, on_progress: OnProgress = ignore) -> bool:
    """Downloads one file to `data_dir`; False if it was there already.

    A file with the right checksum is never downloaded again, so one that you copied there by hand is used. Files and
    folders get their final name only once they are complete and verified.
    """
    file = data_dir / source.path
    if source.unpacked and (data_dir / source.unpacked).exists():
        return False
    here = _has_md5(file, source.md5)
    if not here:
        _download(source, file, on_progress)
    if not source.unpacked:
        return not here
    with _disk_errors(data_dir):
        archive.unpack(file, source.archive_root, data_dir / source.unpacked)
        if not here:
            file.unlink()
    return True


def _load_error(name: str, folder: Path) -> InputError | None:
    try:
        for split in DATASETS[name].splits:
            load(name, split, folder)
    except InputError as error:
        return error
    return None


def _from_mirror(source: RemoteFile, base: str | None) -> RemoteFile:
    return source if base is None else replace(source, url=f"{base.rstrip('/')}/{PurePosixPath(source.url).name}")


@contextmanager
def _disk_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"cannot write to {folder} ({error.strerror or error}); free some space or choose another --data-dir"
        ) from error


@contextmanager
def _network_errors(source: RemoteFile, file: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, http.client.HTTPException, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(
            f"cannot download {source.url} ({reason}); fetch it on another machine, put it at {file.absolute()} "
            "and run this again"
        ) from error


def _download(source: RemoteFile, file: Path, on_progress: OnProgress) -> None:
    part = file.with_name(file.name + ".part")
    with _disk_errors(file.parent):
        file.parent.mkdir(parents=True, exist_ok=True)
    try:
        _receive(source, file, part, on_progress)
        if not _has_md5(part, source.md5):
            raise InputError(
                f"{source.url} does not have the expected checksum (md5 {source.md5}); try again later, or fetch it on "
                f"another machine and put it at {file.absolute()}"
            )
        with _disk_errors(file.parent):
            part.replace(file)
    finally:
        with _disk_errors(file.parent):
            part.unlink(missing_ok=True)


def _receive(source: RemoteFile, file: Path, part: Path, on_progress: OnProgress) -> None:
    with _network_errors(source, file):
        response = urllib.request.urlopen(source.url, timeout=TIMEOUT_S)
    with response, _disk_errors(file.parent), part.open("wb") as out:
        length = response.headers.get("Content-Length")
        total = int(length) if length and length.isdecimal() else 0
        done = 0
        while True:
            with _network_errors(source, file):
                chunk = response.read(CHUNK)
                if not chunk and done < total:
                    raise http.client.IncompleteRead(b"", total - done)
            if not chunk:
                return
            out.write(chunk)
            done += len(chunk)
            on_progress(done, total)


def _has_md5(file: Path, md5: str) -> bool:
    if not file.is_file():
        return False
    digest = hashlib.md5(usedforsecurity=False)
    try:
        with file.open("rb") as stream:
            while chunk := stream.read(CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise InputError(f"{file} cannot be read ({error.strerror}); delete it and run this again") from error
    return digest.hexdigest() == md5
