"""Records: JSON lines, a header of run facts and then one line per input with its votes. No torch here.

Line by line appended and flushed, so a run that is killed loses at most the inputs in flight. The votes are kept, so
any certificate can be computed again, at another alpha or by another theorem, without the model. An attack's lines hold
what it found instead.
"""

from __future__ import annotations

import gzip
import json
import lzma
import operator
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, TypeVar, cast

import numpy as np
import numpy.typing as npt

from sparsecert.certificates.plurality import firsts, tallied
from sparsecert.counts import Tally
from sparsecert.errors import InputError
from sparsecert.files import lock, unwritable
from sparsecert.records import rankings
from sparsecert.records.attack_records import AttackRecord, check_attack

FORMAT = 1
COMPRESSED: dict[str, tuple[bytes, Callable[[BinaryIO], Any]]] = {
    ".gz": (b"\x1f\x8b", gzip.open),
    ".xz": (b"\xfd7zXZ\x00", lzma.open),
}
MOST_KEPT = 20_000  # lines held in memory; of longer files each is read when it is asked for
ANSWERS = "yes", "no", "undecided"  # to the question whether a radius is at least so much
START = b'{"sparsecert"'  # how every records file begins; anything else is not ours to touch
NOT_BEGUN = "{} is empty: the run that writes it has not begun"
CERTIFY, PREDICT, ATTACK = "certify", "predict", "attack"  # the kinds of run


@dataclass(frozen=True)
class Header:
    """What a records file is about: `run` decides every vote and certificate, `environment` says where it was made."""

    kind: str  # "certify", "predict" or "attack"
    run: dict[str, Any]
    environment: dict[str, Any]

    def to_json(self) -> str:
        """The first line of the file."""
        facts = {"sparsecert": "records", "format": FORMAT, "kind": self.kind}
        return json.dumps({**facts, "run": self.run, "environment": self.environment})


@dataclass(frozen=True)
class Record:
    """One input: its number in the data set, its true label, its votes, and the answer drawn from them.

    A certify record has selection and estimation votes, the interval and the radius (None: abstained); `label` is the
    selected class. Where votes were taken sequentially there is no interval: `votes` are those at the look that the
    certificate is drawn from, `samples` counts all the copies the input took, and `answer` is to the question whether
    the radius is at least so much, where that was asked. A predict record has votes alone; `label` is None where it
    abstained.

    Where the copies were those of a fixed set of masks, `rankings` say how each ranks the classes, as text (see
    `rankings`), `votes` are their first choices, and `label` is the winner by the run's rule: there is one.
    """

    example: int
    true: int
    votes: Tally
    label: int | None
    seconds: float
    selection: Tally | None = None
    p_lower: float | None = None
    p_upper: float | None = None
    radius: int | None = None
    samples: int | None = None
    answer: str | None = None
    rankings: str | None = None

    @property
    def copies(self) -> int:
        """All the ablated copies that the input took."""
        if self.samples is not None:
            return self.samples
        return self.votes.total + (self.selection.total if self.selection else 0)

    def to_json(self) -> str:
        """One line; only the classes that had votes are listed."""
        line: dict[str, Any] = {"example": self.example, "true": self.true}
        if self.rankings is not None:
            line |= {"rankings": self.rankings, "label": self.label}
            line |= {} if self.radius is None else {"radius": self.radius}
        elif self.selection is None:
            line |= {"votes": _sparse(self.votes), "invalid": [self.votes.invalid], "label": self.label}
        else:
            line |= {"selection": _sparse(self.selection), "estimation": _sparse(self.votes)}
            line |= {"invalid": [self.selection.invalid, self.votes.invalid], "label": self.label}
            if self.samples is None:
                line |= {"p_lower": self.p_lower, "p_upper": self.p_upper, "radius": self.radius}
            else:
                line |= {"radius": self.radius, "samples": self.samples}
                line |= {} if self.answer is None else {"answer": self.answer}
        return json.dumps({**line, "seconds": self.seconds})

    @classmethod
    def from_json(cls, text: str | bytes, classes: int) -> Record:
        """The record of a line."""
        line = json.loads(text)
        common = {key: line[key] for key in ("example", "true", "label", "seconds")}
        if "rankings" in line:
            ranks = rankings.read(line["rankings"], classes)
            return cls(votes=first_choices(ranks), rankings=line["rankings"], radius=line.get("radius"), **common)
        if "votes" in line:
            return cls(votes=_dense(line["votes"], line["invalid"][0], classes), **common)
        selection, votes = (
            _dense(line[key], line["invalid"][i], classes) for i, key in enumerate(("selection", "estimation"))
        )
        if "samples" in line:
            certificate = {key: line.get(key) for key in ("radius", "samples", "answer")}
        else:
            certificate = {key: line[key] for key in ("p_lower", "p_upper", "radius")}
        return cls(votes=votes, selection=selection, **certificate, **common)


def first_choices(ranks: npt.NDArray[np.int16]) -> Tally:
    """The votes of an input's copies: each for the class that it ranks first, for nobody where it has no opinion."""
    labels = firsts(ranks)
    counts = tallied(labels, ranks.shape[1])
    return Tally(tuple(counts.tolist()), len(labels) - int(counts.sum()))


@dataclass(frozen=True)
class Records:
    """A records file as read: the header and the whole lines after it."""

    path: Path
    header: Header
    lines: Collection[Record]


@dataclass(frozen=True)
class AttackRecords:
    """The records file of an attack as read: the header and the whole lines after it."""

    path: Path
    header: Header
    lines: Collection[AttackRecord]


Line = TypeVar("Line", Record, AttackRecord)


@dataclass(frozen=True)
class Lines(Collection[Line]):
    """The first `count` lines of a file, read again whenever they are gone through: a long run takes no memory."""

    path: Path
    parse: Callable[[bytes], Line]
    count: int

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Line]:
        with opened(self.path) as file:
            for line in islice(file, 1, self.count + 1):
                yield self.parse(line)

    def __contains__(self, record: object) -> bool:
        return any(line == record for line in self)


def read(path: str | Path) -> Records:
    """Reads a records file, plain or compressed by gzip or xz, and holds every line against the header.

    A truncated last line (of a run under way or killed) is left out.
    """
    header, kept, count = _read(path)
    if header.kind == ATTACK:
        raise InputError(f"{path} holds what an attack found, not votes; name records of predict or certify")
    lines = Lines(Path(path), lambda line: Record.from_json(line, header.run["classes"]), count)
    return Records(Path(path), header, cast(tuple[Record, ...], kept) if len(kept) == count else lines)


def read_findings(path: str | Path) -> AttackRecords:
    """Reads the records of an attack as `read` does those of votes."""
    header, kept, count = _read(path)
    if header.kind != ATTACK:
        raise InputError(f"{path} holds {header.kind} records; name one of `sparsecert attack`")
    lines = Lines(Path(path), AttackRecord.from_json, count)
    return AttackRecords(Path(path), header, cast(tuple[AttackRecord, ...], kept) if len(kept) == count else lines)


def kind_of(path: str | Path) -> str:
    """What kind of run a records file is of; only its first line is read."""
    path = Path(path)
    with opened(path) as file:
        header = _first(path, file.readline())
    if header is None:
        raise InputError(NOT_BEGUN.format(path))
    return header.kind


def _read(path: str | Path) -> tuple[Header, tuple[Record | AttackRecord, ...], int]:
    """The header, the lines up to MOST_KEPT, and how many there are."""
    path = Path(path)
    kept: list[Record | AttackRecord] = []
    with opened(path) as file:
        header, done, _ = _scan(path, file, kept)
    if header is None:
        raise InputError(NOT_BEGUN.format(path))
    return header, tuple(kept), len(done)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A file to be read line by line, decompressed."""
    try:
        with path.open("rb") as file:
            start = file.read(8)
            file.seek(0)
            for magic, decompressed in COMPRESSED.values():
                if start.startswith(magic):
                    with decompressed(file) as whole:
                        yield whole
                    return
            yield file
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def glance(path: str | Path) -> tuple[Header, int] | None:
    """The header of a records file, plain or compressed, and how many whole lines follow it; they are not looked at.

    None where not even the header is whole: its run was stopped as it began.
    """
    path = Path(path)
    data = contents(path)
    if not data.startswith(START[: len(data)]):
        raise InputError(f"{path} is not a records file; nothing was changed; name another")
    first, newline, _ = data.partition(b"\n")
    return (_parse_header(path, first), data.count(b"\n") - 1) if newline else None


def contents(path: Path) -> bytes:
    """What a file holds, decompressed."""
    with opened(path) as file:
        return file.read()


def compressed(path: Path) -> Path | None:
    """The records file itself where it is, else its compressed form; None where neither is."""
    forms = (path, *(path.with_name(path.name + suffix) for suffix in COMPRESSED))
    return next((form for form in forms if form.is_file()), None)


class Writer:
    """The only writer of a records file, new or resumed.

    Opening refuses a file that another run is writing, that is not a records file, or whose header does not fit; it
    drops a truncated last line. `done` are the examples already recorded.
    """

    def __init__(self, path: str | Path, header: Header) -> None:
        self.path = Path(path)
        if self.path.exists() and not self.path.is_file():
            raise InputError(f"{self.path} is not a file that records can be written to; name another")
        if self.path.suffix in COMPRESSED:
            raise InputError(f"{self.path}: records are written as plain text, compress them afterwards; name another")
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
            found, self.done, self._end = _scan(self.path, file)
        if found is not None:
            _check_same(self.path, found, header)
        self.header = found or header
        self._file.truncate(self._end)
        if found is None:
            self._append_line(first_line)

    def append(self, records: Iterable[Record | AttackRecord]) -> None:
        """Adds lines and hands them to the system; if that fails, the file ends with the last whole line."""
        for record in records:
            self._append_line(record.to_json())
            self.done.add(record.example)

    def _append_line(self, text: str) -> None:
        line = text.encode() + b"\n"
        with unwritable(self.path, f"{len(self.done)} inputs are recorded; make room and run the same command again"):
            try:
                written = 0
                while written < len(line):
                    written += self._file.write(line[written:]) or 0
            except OSError:
                self._file.truncate(self._end)
                raise
        self._end += len(line)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()


def _scan(
    path: Path, file: BinaryIO, kept: list[Record | AttackRecord] | None = None
) -> tuple[Header | None, set[int], int]:
    """Header, the inputs of the whole lines, and where these end; no header when not even that line is whole.

    `kept` is filled with the lines up to MOST_KEPT.
    """
    first = file.readline()
    header, done, end = _first(path, first), set[int](), len(first)
    if header is None:
        return None, done, 0
    for number, line in enumerate(file, start=2):
        if not line.endswith(b"\n"):
            break
        try:
            record = _parse_line(header, line)
            if record.example in done:
                raise ValueError(f"input {record.example} is there twice")
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
            raise InputError(
                f"{path}, line {number} is damaged ({error}); delete it and run the command again"
            ) from error
        done.add(record.example)
        end += len(line)
        if kept is not None and len(kept) < MOST_KEPT:
            kept.append(record)
    if len(done) > header.run["data"]["inputs"]:
        raise InputError(f"{path} holds {len(done)} inputs, more than the run has; name another file")
    return header, done, end


def _first(path: Path, line: bytes) -> Header | None:
    """The header, None where that line is not whole."""
    if not line.startswith(START[: len(line)]):
        raise InputError(f"{path} is not a records file; nothing was changed; name another")
    return _parse_header(path, line) if line.endswith(b"\n") else None


def _parse_line(header: Header, line: bytes) -> Record | AttackRecord:
    """The record of a line, checked against its header."""
    if header.kind == ATTACK:
        found = AttackRecord.from_json(line)
        _check_line(header, found)
        found.check(header.run)
        return found
    record = Record.from_json(line, header.run["classes"])
    _check_line(header, record)
    _check_samples(header, record)
    return record


def _check_line(header: Header, record: Record | AttackRecord) -> None:
    """Holds a line against its header: an input of the data set, a class, and the time it took."""
    run = header.run
    for name, value, most in (
        ("input", record.example, run["data"]["of"]),
        ("true label", record.true, run["classes"]),
    ):
        if type(value) is not int or not 0 <= value < most:
            raise ValueError(f"{name} {value!r}")
    if type(record.seconds) not in (int, float) or not 0 <= record.seconds < float("inf"):
        raise ValueError(f"seconds {record.seconds!r}")


def _check_samples(header: Header, record: Record) -> None:
    """As many votes as the run has copies; at most so many where they were taken sequentially."""
    run, sequential = header.run, is_sequential(header)
    if (record.rankings is not None) != is_exact(header):
        raise ValueError("rankings do not fit the run's certificate")
    if record.rankings is not None:
        _check_rankings(header, record)
        return
    for tally, n in ((record.selection, run.get("n0")), (record.votes, run["n"])):
        if tally is None:
            continue
        fits = n is not None and (0 < tally.total <= n if sequential else tally.total == n)
        if min(*tally.votes, tally.invalid) < 0 or not fits:
            raise ValueError(f"votes add up to {tally.total}, not {n}")
    if (record.samples is not None) != sequential:
        raise ValueError("samples do not fit the run's sampling")
    if record.samples is not None:
        least = record.votes.total + (record.selection.total if record.selection else 0)
        if type(record.samples) is not int or not least <= record.samples <= run["n0"] + run["n"]:
            raise ValueError(f"samples {record.samples!r}")
        if record.answer not in ((None,) if run["sampling"].get("at_least") is None else ANSWERS):
            raise ValueError(f"answer {record.answer!r}")


def _check_rankings(header: Header, record: Record) -> None:
    """A ranking by each mask, a winner, and a radius where the run certifies."""
    masks, classes = header.run["masks"], header.run["classes"]
    if record.votes.total != masks:
        raise ValueError(f"rankings are by {record.votes.total} masks, not {masks}")
    if type(record.label) is not int or not 0 <= record.label < classes:
        raise ValueError(f"label {record.label!r}")
    certifies = header.kind != "predict"
    if (type(record.radius) is int and record.radius >= 0) != certifies or (record.radius is not None) != certifies:
        raise ValueError(f"radius {record.radius!r}")


def is_exact(header: Header) -> bool:
    """Whether each input was shown to the model by all masks of a fixed set."""
    return "masks" in header.run and "rule" in header.run


def is_sequential(header: Header) -> bool:
    """Whether the run took as many votes of each input as its radius needed."""
    return "sampling" in header.run


def _parse_header(path: Path, line: bytes) -> Header:
    try:
        facts = json.loads(line)
        version, header = facts["format"], Header(facts["kind"], facts["run"], facts["environment"])
        data = header.run["data"]
        samples = [] if header.kind == ATTACK else [header.run["masks" if is_exact(header) else "n"]]
        numbers = header.run["classes"], *samples, data["of"], data["inputs"]
        if not isinstance(header.environment, dict) or not all(
            type(number) is int and number > 0 for number in numbers
        ):
            raise ValueError
        if header.kind == ATTACK:
            check_attack(header.run)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path} has a damaged header; name another file") from error
    if version != FORMAT:
        raise InputError(f"{path} has format {version}, this version reads {FORMAT}; update sparsecert")
    return header


def difference(found: Header, wanted: Header) -> tuple[str, str, str] | None:
    """The first fact in which two runs differ, and what it is in each; None where they are the same run."""
    return _differing({"kind": found.kind, **found.run}, {"kind": wanted.kind, **json.loads(json.dumps(wanted.run))})


def _differing(there: dict[str, Any], here: dict[str, Any]) -> tuple[str, str, str] | None:
    """The first key whose values differ, with both; of two values that are facts themselves, the first of those."""
    for key in sorted(there.keys() | here.keys(), key=list({**here, **there}).index):
        one, other = there.get(key), here.get(key)
        if isinstance(one, dict) and isinstance(other, dict) and (within := _differing(one, other)):
            return f"{key}.{within[0]}", *within[1:]
        if one != other:
            return key, _short(one), _short(other)
    return None


def _check_same(path: Path, found: Header, wanted: Header) -> None:
    """Refuses to mix two runs in one file."""
    differing = difference(found, wanted)
    if differing is not None:
        key, there, here = differing
        facts = f"{key} is {there} there, {here} here"
        raise InputError(f"{path} holds another run: {facts}; name another file")


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 160 else text[:157] + "..."


def _sparse(tally: Tally) -> dict[str, int]:
    return {str(label): votes for label, votes in enumerate(tally.votes) if votes}


def _dense(votes: dict[str, int], invalid: int, classes: int) -> Tally:
    row = [0] * classes
    for label, count in votes.items():
        if not label.isdecimal():
            raise ValueError(f"class {label!r}")
        row[int(label)] = operator.index(count)
    return Tally(tuple(row), operator.index(invalid))
