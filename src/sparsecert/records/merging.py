"""Joining the shards of a run into the records of the whole run. No torch here."""

from __future__ import annotations

import json
import shutil
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from sparsecert.counts import Int64
from sparsecert.errors import InputError
from sparsecert.files import writing_atomically
from sparsecert.records.header import Header, difference
from sparsecert.records.reading import COMPRESSED, Records, open_records, read
from sparsecert.records.writing import check_uncompressed


def merge(paths: Sequence[str | Path], out: str | Path) -> Records:
    """Joins all shards of one run, each complete, into a new file: the records of the whole run, in input order.

    The environment is the first shard's; where the others differ in more than their start time, `shards` keeps what
    differs.
    """
    out = Path(out)
    check_uncompressed(out)
    if out.exists():
        raise InputError(f"{out} exists and is not overwritten; name another file")
    shards = sorted((_read_shard(path) for path in paths), key=lambda shard: shard.header.run["shard"]["index"])
    _check_one_run(shards)
    _check_complete(shards)
    header = Header(shards[0].header.kind, _whole_run(shards[0]), _environment(shards))
    with ExitStack() as files:
        index = _index_lines([files.enter_context(_seekable(shard.path)) for shard in shards])
        _check_inputs(shards, index)
        whole = files.enter_context(writing_atomically(out))
        whole.write(header.to_json().encode() + b"\n")
        for row in index.order:
            whole.write(index.line(int(row)))
    return read(out)


def _read_shard(path: str | Path) -> Records:
    found = read(path)
    shard = found.header.run.get("shard")
    if shard is None:
        raise InputError(f"{path} is a whole run, not a shard; merge joins the files that --shard I/N writes")
    numbers = [shard.get(key) for key in ("index", "of", "inputs")] if isinstance(shard, dict) else [None]
    if not all(type(number) is int and number > 0 for number in numbers) or shard["index"] > shard["of"]:
        raise InputError(f"{path} has a damaged header; name another file")
    return found


def _whole_run(shard: Records) -> dict[str, Any]:
    """The settings of the run that a shard is part of."""
    return {key: value for key, value in shard.header.run.items() if key != "shard"}


def _check_one_run(shards: Sequence[Records]) -> None:
    """Refuses shards of different runs, or of one run split into different numbers of shards."""
    first = shards[0]
    for other in shards[1:]:
        differing = difference(*(Header(shard.header.kind, _whole_run(shard), {}) for shard in (other, first)))
        if differing is not None:
            key, there, here = differing
            differing_in = f"{key} is {there} there, {here} in {first.path}"
            raise InputError(f"{other.path} belongs to another run: {differing_in}; merge the shards of one run")
    splits = {shard.header.run["shard"]["of"]: shard.path for shard in shards}
    if len(splits) > 1:
        (of, path), (another, other_path) = sorted(splits.items())[:2]
        raise InputError(f"{path} is one of {of} shards, {other_path} one of {another}; merge the shards of one run")


def _check_complete(shards: Sequence[Records]) -> None:
    """Refuses a shard that is given twice, missing or unfinished."""
    of = shards[0].header.run["shard"]["of"]
    paths: dict[int, Path] = {}
    for shard in shards:
        index = shard.header.run["shard"]["index"]
        if index in paths:
            raise InputError(f"{paths[index]} and {shard.path} are both shard {index}/{of}; give each shard once")
        paths[index] = shard.path
    missing = [f"{index}/{of}" for index in range(1, of + 1) if index not in paths]
    if missing:
        named = ", ".join(missing[:8]) + (f" and {len(missing) - 8} more" if len(missing) > 8 else "")
        raise InputError(f"{len(missing)} of {of} shards are missing: {named}; give all of them")
    for shard in shards:
        inputs = shard.header.run["shard"]["inputs"]
        if len(shard.lines) < inputs:
            lacking = f"lacks {inputs - len(shard.lines)} of its {inputs} inputs"
            raise InputError(f"{shard.path} {lacking}; run the command that wrote it again")
        if len(shard.lines) > inputs:
            raise InputError(f"{shard.path} holds {len(shard.lines)} inputs, its shard has {inputs}; name another file")


@contextmanager
def _seekable(path: Path) -> Iterator[BinaryIO]:
    """The file, opened for random access; a compressed one as a decompressed temporary copy."""
    with open_records(path) as file, TemporaryFile() as copy:
        if path.suffix not in COMPRESSED:
            yield file
        else:
            shutil.copyfileobj(file, copy)
            copy.seek(0)
            yield cast(BinaryIO, copy)


@dataclass(frozen=True, eq=False)
class LineIndex:
    """Where the line of each input is, in about twenty bytes each, so a run of any length merges in little memory."""

    files: Sequence[BinaryIO]
    example: Int64
    file: npt.NDArray[np.int32]
    start: Int64

    @cached_property
    def order(self) -> Int64:
        return np.argsort(self.example, kind="stable")

    def line(self, row: int) -> bytes:
        file: BinaryIO = self.files[int(self.file[row])]
        file.seek(int(self.start[row]))
        return file.readline()


def _index_lines(files: Sequence[BinaryIO]) -> LineIndex:
    example, number, start = array("q"), array("i"), array("q")
    for which, file in enumerate(files):
        position = len(file.readline())
        for line in iter(file.readline, b""):
            if not line.endswith(b"\n"):
                break
            example.append(json.loads(line)["example"])
            number.append(which)
            start.append(position)
            position += len(line)
    return LineIndex(files, np.array(example), np.array(number, dtype=np.int32), np.array(start))


def _check_inputs(shards: Sequence[Records], index: LineIndex) -> None:
    """Refuses an input that is in two shards, and too few or too many inputs."""
    examples = index.example[index.order]
    twice = examples[1:][examples[1:] == examples[:-1]]
    if len(twice):
        which = dict.fromkeys(str(shards[file].path) for file in index.file[index.example == twice[0]])
        raise InputError(f"input {twice[0]} is in {' and in '.join(which)}; they are not shards of one run")
    inputs = shards[0].header.run["data"]["inputs"]
    if len(examples) != inputs:
        raise InputError(
            f"the shards hold {len(examples)} inputs, the run has {inputs}; they are not shards of one run"
        )


def _environment(shards: Sequence[Records]) -> dict[str, Any]:
    """The first shard's environment, and how the others differ from it."""
    environments = [shard.header.environment for shard in shards]
    keys = dict.fromkeys(key for environment in environments for key in environment if key != "started")
    differing = [key for key in keys if any(other.get(key) != environments[0].get(key) for other in environments)]
    if not differing:
        return environments[0]
    return {**environments[0], "shards": [{key: other.get(key) for key in differing} for other in environments]}
