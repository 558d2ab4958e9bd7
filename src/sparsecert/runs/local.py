"""A run on this machine."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from sparsecert.datasets import Dataset
from sparsecert.records import Header, Writer
from sparsecert.runs.header import as_begun, check_inputs, environment, facts, rows_of
from sparsecert.runs.inputs import Limit, Shard, group_of, indices_of, one_ahead, pixels, unfinished
from sparsecert.runs.procedures import Procedure, computed, inputs_at_once
from sparsecert.smoothed import Smoothed

OnProgress = Callable[[int, int], None]  # (inputs done, copies done) since the last call


def record_all(
    procedure: Procedure,
    smoothed: Smoothed,
    model: str | Path,
    data: Dataset,
    out: str | Path,
    limit: Limit = None,
    shard: Shard | None = None,
    on_progress: OnProgress | None = None,
) -> None:
    """The groups that are not wholly recorded, each computed whole.

    The rows per forward pass and the inputs per group are those of the header, so a resumed run puts the same copies
    into the same batches as an uninterrupted one and ends with the same counts, floating point included.
    """
    on_progress = on_progress or (lambda inputs, copies: None)
    procedure.check(smoothed.scheme)
    smoothed = as_begun(smoothed, out)
    run, indices = facts(smoothed, model, data, limit, shard, procedure.settings()), indices_of(data, limit, shard)
    voting = smoothed.voting(pixels(data, [0]), len(data.classes))
    with Writer(out, Header(procedure.kind, run, environment(smoothed.device, model, voting.rows))) as writer:
        check_inputs(writer, indices)
        voting.rows = rows_of(writer, smoothed.rows)
        on_progress(len(writer.done), 0)
        size = inputs_at_once(procedure, voting.rows, math.prod(data.images.shape))
        left = unfinished(indices, size, writer.done)
        groups = one_ahead(group_of(data, examples) for examples in left)
        for records in computed(procedure, smoothed, groups, voting, lambda copies: on_progress(0, copies)):
            fresh = [record for record in records if record.example not in writer.done]
            writer.append(fresh)
            on_progress(len(fresh), 0)
