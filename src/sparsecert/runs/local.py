"""A run on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from sparsecert.datasets import Dataset
from sparsecert.records import Header, Record, Writer
from sparsecert.runs.facts import check_inputs, environment, facts, rows_of
from sparsecert.runs.inputs import Shard, group_of, groups, indices_of, pixels
from sparsecert.runs.procedures import Procedure, inputs_at_once
from sparsecert.smoothed import Smoothed
from sparsecert.work import Work, in_turn

Told = Callable[[int, int], None]  # (inputs done, copies done) since the last call


def record_all(
    procedure: Procedure,
    smoothed: Smoothed,
    model: str | Path,
    data: Dataset,
    out: str | Path,
    limit: int | None = None,
    shard: Shard | None = None,
    told: Told | None = None,
) -> None:
    """The groups that are not wholly recorded, each computed whole.

    The rows per forward pass and the inputs per group are those of the header, so a resumed run puts the same copies
    into the same batches as an uninterrupted one and ends with the same counts, floating point included. On a GPU
    several groups are under way, so that it is busy while the host certifies and records.
    """
    told = told or (lambda inputs, copies: None)
    procedure.check(smoothed.scheme)
    run, indices = facts(smoothed, model, data, limit, shard, procedure.settings()), indices_of(data, limit, shard)
    voting = smoothed.voting(pixels(data, [0]), len(data.classes))
    with Writer(out, Header(procedure.kind, run, environment(smoothed, model, voting.rows))) as writer:
        check_inputs(writer, indices)
        voting.rows = rows_of(writer, smoothed.rows)

        def works() -> Iterator[Work[tuple[list[int], list[Record]]]]:
            for group in groups(indices, inputs_at_once(procedure, voting.rows)):
                fresh = [example for example in group if example not in writer.done]
                told(len(group) - len(fresh), 0)
                if fresh:
                    yield work(group, fresh)

        def work(group: list[int], fresh: list[int]) -> Work[tuple[list[int], list[Record]]]:
            progress = lambda copies: told(0, copies)  # noqa: E731
            return fresh, (yield from procedure.work(smoothed, group_of(data, group), voting, progress))

        before = time.perf_counter()
        for fresh, done in in_turn(works(), procedure.at_once if smoothed.device.type == "cuda" else 1):
            seconds = (time.perf_counter() - before) / len(done)
            before = time.perf_counter()
            writer.append(replace(record, seconds=seconds) for record in done if record.example in fresh)
            told(len(fresh), 0)
