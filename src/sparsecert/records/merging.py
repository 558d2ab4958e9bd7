"""The shards of a run joined into the records of the whole. No torch here."""

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

from sparsecert.errors import InputError
from sparsecert.files import writing_atomically
from sparsecert.records import COMPRESSED, Header, Records, difference, opened, read


def merge(paths: Sequence[str | Path], out: str | Path) -> Records:
    """Joins all the shards of one run, each complete, into a new file that is that of the whole run.

    The lines are in the order of the inputs. The environment is the first shard's; where those of the others differ
    in more than the moment they were started, all that differs is kept under `shards`.
    """
    out = Path(out)
    _check_new(out)
    shards = sorted((_read_shard(path) for path in paths), key=lambda shard: shard.header.run["shard"]["index"])
    _check_one_run(shards)
    _check_all_there(shards)
    header = Header(shards[0].header.kind, _whole_run(shards[0]), _environment(shards))
    with ExitStack() as files:
        places = _places([files.enter_context(_plain(shard.path)) for shard in shards])
        _check_inputs(shards, places)
        whole = files.enter_context(writing_atomically(out))
        whole.write(header.to_json().encode() + b"\n")
        for place in places.order:
            whole.write(places.line(int(place)))
    return read(out)


def _check_new(out: Path) -> None:
    """Refuses a file that is there, and a name that promises compression."""
    if out.suffix in COMPRESSED:
        raise InputError(f"{out}: records are written as plain text, compress them afterwards; name another")
    if out.exists():
        raise InputError(f"{out} exists and is not overwritten; name another file")


def _read_shard(path: str | Path) -> Records:
    """A records file, if it is of a shard."""
    found = read(path)
    shard = found.header.run.get("shard")
    if shard is None:
        raise InputError(f"{path} is not a shard but a whole run; merge joins what --shard I/N wrote")
    numbers = [shard.get(key) for key in ("index", "of", "inputs")] if isinstance(shard, dict) else [None]
    if not all(type(number) is int and number > 0 for number in numbers) or shard["index"] > shard["of"]:
        raise InputError(f"{path} has a damaged header; name another file")
    return found


def _whole_run(shard: Records) -> dict[str, Any]:
    """The facts of the run that a shard is part of."""
    return {key: value for key, value in shard.header.run.items() if key != "shard"}


def _check_one_run(shards: Sequence[Records]) -> None:
    """Refuses shards of different runs, and of runs cut into different numbers of shards."""
    first = shards[0]
    for other in shards[1:]:
        differing = difference(*(Header(shard.header.kind, _whole_run(shard), {}) for shard in (other, first)))
        if differing is not None:
            key, there, here = differing
            facts = f"{key} is {there} there, {here} in {first.path}"
            raise InputError(f"{other.path} is of another run: {facts}; merge the shards of one run")
    cuts = {shard.header.run["shard"]["of"]: shard.path for shard in shards}
    if len(cuts) > 1:
        (of, path), (another, other_path) = sorted(cuts.items())[:2]
        raise InputError(f"{path} is one of {of} shards, {other_path} one of {another}; merge the shards of one run")


def _check_all_there(shards: Sequence[Records]) -> None:
    """Refuses a shard that comes twice, that is missing or that has not been finished."""
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
def _plain(path: Path) -> Iterator[BinaryIO]:
    """The file, to be read from any place; a compressed one as a temporary copy that is not."""
    with opened(path) as file, TemporaryFile() as copy:
        if path.suffix not in COMPRESSED:
            yield file
        else:
            shutil.copyfileobj(file, copy)
            copy.seek(0)
            yield cast(BinaryIO, copy)


@dataclass(frozen=True, eq=False)
class Places:
    """Where the line of each input is, in some twenty bytes: a run of any length is joined in little memory."""

    files: Sequence[BinaryIO]
    example: npt.NDArray[np.int64]
    file: npt.NDArray[np.int32]
    start: npt.NDArray[np.int64]

    @cached_property
    def order(self) -> npt.NDArray[np.int64]:
        """The places in the order of the inputs."""
        return np.argsort(self.example, kind="stable")

    def line(self, place: int) -> bytes:
        """The line at this place."""
        file: BinaryIO = self.files[int(self.file[place])]
        file.seek(int(self.start[place]))
        return file.readline()


def _places(files: Sequence[BinaryIO]) -> Places:
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
    return Places(files, np.array(example), np.array(number, dtype=np.int32), np.array(start))


def _check_inputs(shards: Sequence[Records], places: Places) -> None:
    """Refuses an input that two shards have, and too few or too many."""
    examples = places.example[places.order]
    twice = examples[1:][examples[1:] == examples[:-1]]
    if len(twice):
        which = dict.fromkeys(str(shards[file].path) for file in places.file[places.example == twice[0]])
        raise InputError(f"input {twice[0]} is in {' and in '.join(which)}; they are not shards of one run")
    inputs = shards[0].header.run["data"]["inputs"]
    if len(examples) != inputs:
        raise InputError(
            f"the shards hold {len(examples)} inputs, the run has {inputs}; they are not shards of one run"
        )


def _environment(shards: Sequence[Records]) -> dict[str, Any]:
    """The first shard's environment, and what differs in the others'."""
    environments = [shard.header.environment for shard in shards]
    keys = dict.fromkeys(key for environment in environments for key in environment if key != "started")
    differing = [key for key in keys if any(other.get(key) != environments[0].get(key) for other in environments)]
    if not differing:
        return environments[0]
    return {**environments[0], "shards": [{key: other.get(key) for key in differing} for other in environments]}
