"""Shards of a run: merged they are the run, and what is not all the shards of one run is refused."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparsecert import datasets
from sparsecert.counts import Tally
from sparsecert.errors import InputError
from sparsecert.procedures.sequential import Sequential
from sparsecert.records import Header, Record, Writer, read
from sparsecert.records.merging import merge
from sparsecert.reports import summarise
from sparsecert.runs import RandomSample, Shard, certify_dataset, predict_dataset
from sparsecert.runs.groups import groups
from sparsecert.smoothed import Smoothed
from tests.helpers import untimed

SETTINGS: dict[str, tuple[Any, dict[str, Any]]] = {
    "fixed": (certify_dataset, {"n0": 20, "n": 100}),
    "sequential": (certify_dataset, {"procedure": Sequential(max_samples=600, n0=50)}),
    "predict": (predict_dataset, {"n": 100}),
}


@pytest.mark.parametrize("kind", list(SETTINGS))
@pytest.mark.parametrize("of", [1, 3])
def test_merged_shards_are_the_run(trained: Path, tmp_path: Path, kind: str, of: int) -> None:
    run, settings = SETTINGS[kind]
    smoothed, data = Smoothed.load(trained, rows=64), datasets.load("digits")
    run(smoothed, trained, data, tmp_path / "whole.jsonl", limit=20, **settings)
    shards = [tmp_path / f"{index}.jsonl" for index in range(of, 0, -1)]
    for index, path in zip(range(of, 0, -1), shards, strict=True):
        run(smoothed, trained, data, path, limit=20, shard=Shard(index, of), **settings)
    merged = merge(shards, tmp_path / "merged.jsonl")
    assert untimed(tmp_path / "merged.jsonl") == untimed(tmp_path / "whole.jsonl")
    assert merged == read(tmp_path / "merged.jsonl")
    if kind != "predict":
        assert summarise(merged).inputs == 20
    before, reported = (tmp_path / "merged.jsonl").read_bytes(), []
    run(
        smoothed,
        trained,
        data,
        tmp_path / "merged.jsonl",
        limit=20,
        on_progress=lambda *now: reported.append(now),
        **settings,
    )
    assert reported == [(20, 0)]
    assert (tmp_path / "merged.jsonl").read_bytes() == before


def test_shards_of_a_random_subset_are_that_subset(trained: Path, tmp_path: Path) -> None:
    smoothed, data = Smoothed.load(trained, rows=64), datasets.load("digits")
    paths = [tmp_path / f"{index}.jsonl" for index in (1, 2)]
    for index, path in enumerate(paths, start=1):
        predict_dataset(smoothed, trained, data, path, n=10, limit=RandomSample(30, 2), shard=Shard(index, 2))
    merged = merge(paths, tmp_path / "merged.jsonl")
    assert [line.example for line in merged.lines] == data.random_indices(30, 2).tolist()
    assert merged.header.run["chosen"] == {"kind": "random", "seed": 2}
    predict_dataset(smoothed, trained, data, tmp_path / "spaced.jsonl", n=10, limit=30, shard=Shard(2, 2))
    with pytest.raises(InputError, match="belongs to another run: chosen is"):
        merge([paths[0], tmp_path / "spaced.jsonl"], tmp_path / "mixed.jsonl")


@pytest.mark.parametrize(("inputs", "of"), [(64, 1), (500, 7), (10_000, 8), (10_001, 3), (1_030, 16)])
def test_a_shard_of_64_inputs_or_more_has_the_groups_of_the_run(inputs: int, of: int) -> None:
    indices = np.arange(inputs) * 3
    for size in (1, 2, 16, 64):
        whole = list(groups(indices, size))
        parts = [group for index in range(of) for group in groups(Shard(index + 1, of).part(indices), size)]
        assert sorted(parts) == whole


RUN = {
    "model": {"sha256": "ab"},
    "classes": 4,
    "n0": 5,
    "n": 10,
    "seed": 0,
    "data": {"name": "made", "of": 20, "inputs": 6},
}
ENVIRONMENT = {"model": "m", "torch": "2.9", "rows": 7, "started": "now"}


def _record(example: int) -> Record:
    return Record(example, 3, Tally((0, 0, 2, 8)), 3, 0.5, Tally((0, 0, 0, 5)), 0.49, 0.3, 1)


def _shard(
    path: Path,
    index: int,
    of: int,
    examples: list[int],
    *,
    inputs: int | None = None,
    kind: str = "certify",
    environment: dict[str, Any] | None = None,
    **changes: Any,
) -> Path:
    part = {**asdict(Shard(index, of)), "inputs": len(examples) if inputs is None else inputs}
    header = Header(kind, {**RUN, **changes, "shard": part}, {**ENVIRONMENT, **(environment or {})})
    with Writer(path, header) as writer:
        writer.append(map(_record, examples))
    return path


@pytest.fixture
def first(tmp_path: Path) -> Path:
    return _shard(tmp_path / "a.jsonl", 1, 2, [0, 6, 12])


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_shards_are_read(
    first: Path, tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes]
) -> None:
    second = _shard(tmp_path / "b.jsonl", 2, 2, [3, 9, 15])
    packed = tmp_path / f"b.jsonl{suffix}"
    packed.write_bytes(compress(second.read_bytes()))
    merged = merge([packed, first], tmp_path / "new" / "out.jsonl")
    assert [line.example for line in merged.lines] == [0, 3, 6, 9, 12, 15]
    assert merged.header == Header("certify", RUN, ENVIRONMENT)


def test_environments_that_differ_are_all_kept(first: Path, tmp_path: Path) -> None:
    second = _shard(tmp_path / "b.jsonl", 2, 2, [3, 9, 15], environment={"rows": 9, "workers": 4, "started": "later"})
    environment = merge([second, first], tmp_path / "out.jsonl").header.environment
    assert environment == {**ENVIRONMENT, "shards": [{"rows": 7, "workers": None}, {"rows": 9, "workers": 4}]}


REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "another run": (
        {"seed": 1},
        "b.jsonl belongs to another run: seed is 1 there, 0 in {tmp}/a.jsonl; merge the shards of",
    ),
    "another kind": ({"kind": "predict"}, 'b.jsonl belongs to another run: kind is "predict" there, "certify" in'),
    "another model": ({"model": {"sha256": "cd"}}, 'model.sha256 is "cd" there, "ab" in'),
    "another cut": ({"of": 3}, "a.jsonl is one of 2 shards, {tmp}/b.jsonl one of 3; merge the shards of one run"),
    "the same shard": ({"index": 1}, "a.jsonl and {tmp}/b.jsonl are both shard 1/2; give each shard once"),
    "not finished": ({"inputs": 5}, "b.jsonl lacks 2 of its 5 inputs; run the command that wrote it again"),
    "too much": ({"inputs": 2}, "b.jsonl holds 3 inputs, its shard has 2"),
    "an input twice": ({"examples": [3, 6, 15]}, "input 6 is in {tmp}/a.jsonl and in {tmp}/b.jsonl; they are not"),
    "too few": ({"examples": [3, 9]}, "the shards hold 5 inputs, the run has 6"),
}


@pytest.mark.parametrize("name", list(REFUSALS))
def test_what_is_not_all_of_one_run_is_refused(first: Path, tmp_path: Path, name: str) -> None:
    changes, message = REFUSALS[name]
    second = _shard(tmp_path / "b.jsonl", **{"index": 2, "of": 2, "examples": [3, 9, 15], **changes})
    with pytest.raises(InputError) as refusal:
        merge([first, second], tmp_path / "out.jsonl")
    assert message.replace("{tmp}", str(tmp_path)) in str(refusal.value)
    assert "\n" not in str(refusal.value)
    with pytest.raises(InputError):
        merge([second, first], tmp_path / "out.jsonl")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "b.jsonl"]


def test_missing_shards_are_named(tmp_path: Path) -> None:
    path = _shard(tmp_path / "a.jsonl", 2, 12, [0])
    with pytest.raises(InputError, match=r"11 of 12 shards are missing: 1/12, 3/12, .*, 9/12 and 3 more; give all"):
        merge([path], tmp_path / "out.jsonl")
    path = _shard(tmp_path / "b.jsonl", 2, 3, [0])
    with pytest.raises(InputError, match="2 of 3 shards are missing: 1/3, 3/3; give all of them"):
        merge([path], tmp_path / "out.jsonl")


def test_a_file_that_is_no_shard_is_refused(first: Path, tmp_path: Path) -> None:
    with Writer(tmp_path / "whole.jsonl", Header("certify", RUN, {})):
        pass
    with pytest.raises(
        InputError, match=r"whole.jsonl is a whole run, not a shard; merge joins the files that --shard I/N"
    ):
        merge([first, tmp_path / "whole.jsonl"], tmp_path / "out.jsonl")
    (tmp_path / "notes").write_text("notes")
    with pytest.raises(InputError, match="notes is not a records file"):
        merge([first, tmp_path / "notes"], tmp_path / "out.jsonl")
    for number, part in enumerate(("2/2", {"index": 3, "of": 2, "inputs": 1}, {"index": 1, "of": 2})):
        with Writer(tmp_path / f"damaged{number}.jsonl", Header("certify", {**RUN, "shard": part}, {})):
            pass
        with pytest.raises(InputError, match=rf"damaged{number}.jsonl has a damaged header"):
            merge([first, tmp_path / f"damaged{number}.jsonl"], tmp_path / "out.jsonl")


def test_nothing_is_overwritten(first: Path, tmp_path: Path) -> None:
    second = _shard(tmp_path / "b.jsonl", 2, 2, [3, 9, 15])
    before = second.read_bytes()
    with pytest.raises(InputError, match=r"b.jsonl exists and is not overwritten; name another file"):
        merge([first, second], second)
    with pytest.raises(InputError, match="compress them afterwards"):
        merge([first, second], tmp_path / "out.jsonl.xz")
    with pytest.raises(InputError, match="cannot be written"):
        merge([first, second], first / "out.jsonl")
    assert second.read_bytes() == before
