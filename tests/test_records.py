"""Records: what is written is read back, and what does not fit is refused with nothing lost."""

from __future__ import annotations

import errno
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparsecert.counts import Tally
from sparsecert.errors import InputError
from sparsecert.records import Header, Record, Writer, find_records, read, read_header

RUN = {
    "model": {"sha256": "ab"},
    "classes": 4,
    "n0": 5,
    "n": 10,
    "seed": 0,
    "scheme": {"kind": "uniform", "units": 9, "keep": 2},
    "data": {"name": "made", "of": 20, "inputs": 3},
}
HEADER = Header("certify", RUN, {"rows": 7})
RECORDS = [
    Record(0, 3, Tally((0, 0, 2, 8)), 3, 0.5, Tally((0, 0, 0, 5)), 0.49, 0.3, 1),
    Record(5, 1, Tally((4, 5, 0, 0), 1), 0, 0.25, Tally((3, 2, 0, 0)), 0.1, 0.9, None),
    Record(7, 2, Tally((0, 0, 10, 0)), 2, 0.125, Tally((0, 0, 5, 0)), 0.75, 0.25, 4),
]


def _written(path: Path, records: list[Record] = RECORDS) -> bytes:
    with Writer(path, HEADER) as writer:
        writer.append(records)
    return path.read_bytes()


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "new" / "certify.jsonl"
    data = _written(path)
    found = read(path)
    assert found.header == HEADER
    assert list(found.lines) == RECORDS
    assert data.count(b"\n") == 4
    assert json.loads(data.splitlines()[1])["estimation"] == {"2": 2, "3": 8}


def test_predictions_have_votes_alone(tmp_path: Path) -> None:
    path = tmp_path / "predict.jsonl"
    records = [Record(1, 2, Tally((0, 0, 9, 1)), 2, 0.1), Record(2, 0, Tally((4, 4, 1, 0), 1), None, 0.1)]
    with Writer(path, Header("predict", RUN, {})) as writer:
        writer.append(records)
    assert list(read(path).lines) == records


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_records_are_read(tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "c.jsonl"
    packed = path.with_name(path.name + suffix)
    packed.write_bytes(compress(_written(path)))
    assert list(read(packed).lines) == RECORDS
    assert find_records(path) == path
    path.unlink()
    assert find_records(path) == packed
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(InputError, match="cannot be read"):
        read(packed)
    packed.unlink()
    assert find_records(path) is None


def test_a_glance_gives_the_header_and_counts_the_lines(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    whole = _written(path)
    assert read_header(path) == (read(path).header, len(RECORDS))
    path.write_bytes(whole + b'{"example": 5')
    assert read_header(path)[1] == len(RECORDS)
    for start in (b"", b'{"spar', b'{"sparsecert": "rec'):
        path.write_bytes(start)
        assert read_header(path) is None
    path.write_bytes(b"notes\n")
    with pytest.raises(InputError, match="is not a records file"):
        read_header(path)


@pytest.mark.parametrize("cut", [1, 20, 100])
def test_a_truncated_last_line_is_dropped_and_written_again(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "c.jsonl"
    whole = _written(path)
    path.write_bytes(whole[:-cut])
    assert list(read(path).lines) == RECORDS[:2]
    with Writer(path, HEADER) as writer:
        assert writer.done == {0, 5}
        writer.append(RECORDS[2:])
    assert path.read_bytes() == whole


def test_a_truncated_header_is_begun_again(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    whole = _written(path)
    for size in (0, 5, 40):
        path.write_bytes(whole[:size])
        assert _written(path) == whole


def test_the_first_environment_stays(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    _written(path)
    with Writer(path, Header("certify", RUN, {"rows": 9})) as writer:
        assert writer.header.environment == {"rows": 7}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 1}, "seed is 0 there, 1 here"),
        ({"n": 20}, "n is 10 there, 20 here"),
        ({"model": {"sha256": "cd"}}, 'model.sha256 is "ab" there, "cd" here'),
        ({"scheme": {"kind": "uniform", "units": 9, "keep": 3}}, "scheme.keep is 2 there, 3 here"),
        ({"data": {**RUN["data"], "inputs": 4}}, "data.inputs is 3 there, 4 here"),
        ({"extra": 1}, "extra is null there, 1 here"),
    ],
)
def test_the_file_of_another_run_is_refused_and_untouched(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    path = tmp_path / "c.jsonl"
    before = _written(path)
    with pytest.raises(InputError, match="holds another run: ") as refusal:
        Writer(path, Header("certify", {**RUN, **changes}, {}))
    assert message in str(refusal.value)
    with pytest.raises(InputError, match="kind is"):
        Writer(path, Header("predict", RUN, {}))
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"hello", b"# notes\n", b'{"a": 1}\n', b"\x00\x01"])
def test_a_file_that_is_not_ours_is_refused_and_untouched(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    for use in (lambda: Writer(path, HEADER), lambda: read(path)):
        with pytest.raises(InputError, match="is not a records file"):
            use()
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b'"format": 1', b'"format": 7', "has format 7, this version reads 1"),
        (b'"classes": 4, ', b"", "damaged header"),
        (b'"estimation": {"2": 2', b'"estimation": {"9": 2', "line 2 is damaged"),
        (b'"true": 1', b'"tru": 1', "line 3 is damaged"),
        (
            b'"estimation": {"2": 2',
            b'"estimation": {"2": 99999',
            r"line 2 is damaged \(votes add up to 100007, not 10\)",
        ),
        (b'"estimation": {"2": 2', b'"estimation": {"-1": 2', "line 2 is damaged"),
        (b'"estimation": {"2": 2', b'"estimation": {"2": 2.0', "line 2 is damaged"),
        (b'"estimation": {"2": 2, "3": 8}', b'"estimation": {"2": -2, "3": 12}', "line 2 is damaged"),
        (b'"estimation": {"2": 2, "3": 8}', b'"estimation": [0, 0, 2, 8]', "line 2 is damaged"),
        (b'"selection": {"3": 5}', b'"selection": {"3": 6}', "line 2 is damaged"),
        (b'"example": 5', b'"example": 0', r"line 3 is damaged \(input 0 occurs twice\)"),
        (b'"n": 10', b'"n": "ten"', "damaged header"),
        (b'"inputs": 3', b'"inputs": "x"', "damaged header"),
        (b'"inputs": 3', b'"inputs": 2', "holds 3 inputs, more than the run has"),
        (b'"environment": {"rows": 7}', b'"environment": null', "damaged header"),
        (b'"seconds": 0.25', b'"seconds": null', "line 3 is damaged"),
        (b'"seconds": 0.25', b'"seconds": NaN', "line 3 is damaged"),
        (b'"example": 5', b'"example": -5', "line 3 is damaged"),
        (b'"example": 5', b'"example": 20', "line 3 is damaged"),
        (b'"example": 5', b'"example": "5"', "line 3 is damaged"),
        (b'"true": 1', b'"true": "1"', "line 3 is damaged"),
        (b'"true": 1', b'"true": 4', "line 3 is damaged"),
        (b'"true": 1', b'"true": ' + b"[" * 100_000, "line 3 is damaged"),
    ],
)
def test_damage_is_named(tmp_path: Path, old: bytes, new: bytes, message: str) -> None:
    path = tmp_path / "c.jsonl"
    path.write_bytes(_written(path).replace(old, new))
    with pytest.raises(InputError, match=message):
        read(path)


def test_two_writers_refuse_each_other(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    with Writer(path, HEADER) as writer:
        writer.append(RECORDS[:1])
        with pytest.raises(InputError, match="is being written by another run"):
            Writer(path, HEADER)
        writer.append(RECORDS[1:])
    assert list(read(path).lines) == RECORDS


def test_a_full_disk_loses_no_whole_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c.jsonl"
    whole = _written(tmp_path / "whole.jsonl")

    class Full:
        """A file on a disk that takes ten more bytes and then no more."""

        def __init__(self, file: Any) -> None:
            self.file, self.left = file, 10

        def write(self, data: bytes) -> int:
            if not self.left:
                raise OSError(errno.ENOSPC, "No space left on device")
            taken, self.left = self.file.write(data[: self.left]), 0
            return int(taken)

        def truncate(self, size: int) -> None:
            self.file.truncate(size)

        def close(self) -> None:
            self.file.close()

    with Writer(path, HEADER) as writer:
        writer.append(RECORDS[:1])
        monkeypatch.setattr(writer, "_file", Full(writer._file))
        with pytest.raises(InputError, match="No space left on device; 1 inputs are recorded; make room and run"):
            writer.append(RECORDS[1:])
    assert list(read(path).lines) == RECORDS[:1]
    with Writer(path, HEADER) as writer:
        writer.append(RECORDS[1:])
    assert path.read_bytes() == whole


def test_places_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match=r"file/c.jsonl cannot be written"):
        Writer(tmp_path / "file" / "c.jsonl", HEADER)
    with pytest.raises(InputError, match="is not a file that records can be written to"):
        Writer(tmp_path, HEADER)
    with pytest.raises(InputError, match="is not a file that records can be written to"):
        Writer("/dev/full", HEADER)


def test_missing_and_empty_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(InputError, match="is empty"):
        read(tmp_path / "empty.jsonl")
    whole = gzip.compress(_written(tmp_path / "c.jsonl"))
    for damaged in (whole[:-9], whole[:30], whole[:20] + b"xxxx" + whole[24:]):
        (tmp_path / "bad.jsonl.gz").write_bytes(damaged)
        with pytest.raises(InputError, match="cannot be read"):
            read(tmp_path / "bad.jsonl.gz")


def test_a_failed_write_touches_no_file_but_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Moved away under the writer, with another file now in its place: that one is not cut."""
    path = tmp_path / "c.jsonl"

    class Broken:
        def __init__(self, file: Any) -> None:
            self.file = file

        def write(self, _data: bytes) -> int:
            raise OSError(errno.EIO, "Input/output error")

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

    with Writer(path, HEADER) as writer:
        path.rename(tmp_path / "moved.jsonl")
        path.write_bytes(b"precious" * 100)
        monkeypatch.setattr(writer, "_file", Broken(writer._file))
        with pytest.raises(InputError, match="Input/output error"):
            writer.append(RECORDS)
    assert path.read_bytes() == b"precious" * 100


def test_records_are_not_written_to_a_name_that_promises_gzip(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="records are written as plain text, compress them afterwards"):
        Writer(tmp_path / "c.jsonl.gz", HEADER)
    (tmp_path / "plain.gz").write_bytes(_written(tmp_path / "c.jsonl"))
    assert list(read(tmp_path / "plain.gz").lines) == RECORDS
