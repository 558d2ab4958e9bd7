"""Reading records files, plain or compressed."""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from sparsecert.errors import InputError
from sparsecert.records.attack_records import AttackRecord
from sparsecert.records.header import ATTACK, Header, parse_header
from sparsecert.records.lines import Record, parse_line

COMPRESSED: dict[str, tuple[bytes, Callable[[BinaryIO], Any]]] = {
    ".gz": (b"\x1f\x8b", gzip.open),
    ".xz": (b"\xfd7zXZ\x00", lzma.open),
}
MAX_IN_MEMORY = 20_000  # lines; a longer file is read again on every iteration

Line = TypeVar("Line", Record, AttackRecord)


@dataclass(frozen=True)
class Records:
    """A records file of votes: the header and the complete lines after it."""

    path: Path
    header: Header
    lines: Collection[Record]


@dataclass(frozen=True)
class AttackRecords:
    """A records file of an attack: the header and the complete lines after it."""

    path: Path
    header: Header
    lines: Collection[AttackRecord]


@dataclass(frozen=True)
class LazyLines(Collection[Line]):
    """The first `count` lines of a file, read again on every iteration, so a long run takes no memory."""

    path: Path
    parse: Callable[[bytes], Line]
    count: int

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Line]:
        with open_records(self.path) as file:
            for line in islice(file, 1, self.count + 1):
                yield self.parse(line)

    def __contains__(self, record: object) -> bool:
        return any(line == record for line in self)


def read(path: str | Path) -> Records:
    """Reads a records file, plain or compressed by gzip or xz, and checks every line against the header.

    A truncated last line, of a run that was killed or is still running, is left out.
    """
    header, kept, count = _read(path)
    if header.kind == ATTACK:
        raise InputError(f"{path} holds attack records, not votes; name records of predict or certify")
    lines = LazyLines(Path(path), lambda line: Record.from_json(line, header.run["classes"]), count)
    return Records(Path(path), header, cast(tuple[Record, ...], kept) if len(kept) == count else lines)


def read_attack(path: str | Path) -> AttackRecords:
    """Reads the records of an attack, as `read` reads those of votes."""
    header, kept, count = _read(path)
    if header.kind != ATTACK:
        raise InputError(f"{path} holds {header.kind} records; name one of `sparsecert attack`")
    lines = LazyLines(Path(path), AttackRecord.from_json, count)
    return AttackRecords(Path(path), header, cast(tuple[AttackRecord, ...], kept) if len(kept) == count else lines)


def kind_of(path: str | Path) -> str:
    """The kind of run that a records file holds; reads its first line only."""
    path = Path(path)
    with open_records(path) as file:
        return _require_header(path, parse_header(path, file.readline())).kind


def read_header(path: str | Path) -> tuple[Header, int] | None:
    """The header of a records file and the number of complete lines after it, which are not parsed.

    None if not even the header is complete: the run was stopped as it started.
    """
    path = Path(path)
    data = read_bytes(path)
    header = parse_header(path, data[: data.find(b"\n") + 1] or data)
    return None if header is None else (header, data.count(b"\n") - 1)


def read_bytes(path: Path) -> bytes:
    """The decompressed content of a file."""
    with open_records(path) as file:
        return file.read()


def find_records(path: Path) -> Path | None:
    """The file at `path`, else its compressed form beside it; None if neither exists."""
    forms = (path, *(path.with_name(path.name + suffix) for suffix in COMPRESSED))
    return next((form for form in forms if form.is_file()), None)


@contextmanager
def open_records(path: Path) -> Iterator[BinaryIO]:
    """Opens a file for reading, decompressed; its first bytes decide how, not its name."""
    try:
        with path.open("rb") as file:
            start = file.read(8)
            file.seek(0)
            for magic, decompress in COMPRESSED.values():
                if start.startswith(magic):
                    with decompress(file) as plain:
                        yield plain
                    return
            yield file
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def scan(
    path: Path, file: BinaryIO, kept: list[Record | AttackRecord] | None = None
) -> tuple[Header | None, set[int], int]:
    """The header, the inputs of the complete lines, and the offset where these end; None if the header is incomplete.

    Appends up to MAX_IN_MEMORY records to `kept`.
    """
    first = file.readline()
    header, done, end = parse_header(path, first), set[int](), len(first)
    if header is None:
        return None, done, 0
    for number, line in enumerate(file, start=2):
        if not line.endswith(b"\n"):
            break
        try:
            record = parse_line(header, line)
            if record.example in done:
                raise ValueError(f"input {record.example} occurs twice")
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
            raise InputError(
                f"{path}, line {number} is damaged ({error}); delete it and run the command again"
            ) from error
        done.add(record.example)
        end += len(line)
        if kept is not None and len(kept) < MAX_IN_MEMORY:
            kept.append(record)
    if len(done) > header.run["data"]["inputs"]:
        raise InputError(f"{path} holds {len(done)} inputs, more than the run has; name another file")
    return header, done, end


def _read(path: str | Path) -> tuple[Header, tuple[Record | AttackRecord, ...], int]:
    """The header, up to MAX_IN_MEMORY lines, and how many lines there are."""
    path = Path(path)
    kept: list[Record | AttackRecord] = []
    with open_records(path) as file:
        header, done, _ = scan(path, file, kept)
    return _require_header(path, header), tuple(kept), len(done)


def _require_header(path: Path, header: Header | None) -> Header:
    if header is None:
        raise InputError(f"{path} is empty: the run that writes it has not started")
    return header
