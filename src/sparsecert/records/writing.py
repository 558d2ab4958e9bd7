"""Writing records files, line by line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from sparsecert.errors import InputError
from sparsecert.files import lock, unwritable
from sparsecert.records.attack_records import AttackRecord
from sparsecert.records.header import Header, difference
from sparsecert.records.lines import Record
from sparsecert.records.reading import COMPRESSED, scan


class Writer:
    """The only writer of a records file, new or resumed.

    Refuses a file that another run is writing, that is not a records file, or that holds another run; drops a truncated
    last line. `done` holds the inputs already recorded.
    """

    def __init__(self, path: str | Path, header: Header) -> None:
        self.path = Path(path)
        if self.path.exists() and not self.path.is_file():
            raise InputError(f"{self.path} is not a file that records can be written to; name another")
        check_uncompressed(self.path)
        first_line = header.to_json()
        with unwritable(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("a+b", buffering=0)
        try:
            lock(self._file, self.path)
            self._resume(header, first_line)
        except BaseException:
            self._file.close()
            raise

    def _resume(self, header: Header, first_line: str) -> None:
        with unwritable(self.path), self.path.open("rb") as file:
            found, self.done, self._end = scan(self.path, file)
        differing = None if found is None else difference(found, header)
        if differing is not None:
            key, there, here = differing
            raise InputError(f"{self.path} holds another run: {key} is {there} there, {here} here; name another file")
        self.header = found or header
        self._file.truncate(self._end)
        if found is None:
            self._append_lines([first_line])

    def append(self, records: Iterable[Record | AttackRecord]) -> None:
        """Writes records through to the system; if that fails, the file still ends with a complete line."""
        known = list(records)
        self._append_lines([record.to_json() for record in known])
        self.done.update(record.example for record in known)

    def _append_lines(self, texts: list[str]) -> None:
        lines = "".join(f"{text}\n" for text in texts).encode()
        with unwritable(self.path, f"{len(self.done)} inputs are recorded; make room and run the same command again"):
            try:
                written = 0
                while written < len(lines):
                    written += self._file.write(lines[written:]) or 0
            except OSError:
                self._file.truncate(self._end)
                raise
        self._end += len(lines)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()


def check_uncompressed(path: Path) -> None:
    if path.suffix in COMPRESSED:
        raise InputError(f"{path}: records are written as plain text, compress them afterwards; name another")
