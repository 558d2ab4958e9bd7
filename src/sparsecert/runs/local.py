"""A run on this machine."""

from __future__ import annotations

import math
from pathlib import Path

from sparsecert.inputs import Inputs
from sparsecert.progress import OnProgress, ignore
from sparsecert.records import Header, Writer
from sparsecert.runs.groups import Limit, Shard, indices_of, load_batch, load_group, prefetch, unfinished
from sparsecert.runs.header import check_inputs, environment, recorded_rows, run_info, with_recorded_precision
from sparsecert.runs.run_spec import RunSpec, compute_records, inputs_per_group
from sparsecert.smoothed import Smoothed


def record_all(
    spec: RunSpec,
    smoothed: Smoothed,
    model: str | Path,
    data: Inputs,
    out: str | Path,
    limit: Limit = None,
    shard: Shard | None = None,
    on_progress: OnProgress = ignore,
) -> None:
    """Computes and records the groups that are not completely recorded, each as a whole.

    Rows per forward pass and inputs per group are those of the header, so a resumed run puts the same copies into the
    same batches as an uninterrupted one and ends with the same counts, floating point included.
    """
    spec.check(smoothed.scheme)
    smoothed = with_recorded_precision(smoothed, out)
    run = run_info(smoothed, model, data, limit, shard, spec.settings(smoothed.scheme))
    indices = indices_of(data, limit, shard)
    voter = smoothed.voter(load_batch(data, [0]), len(data.classes))
    with Writer(out, Header(spec.kind, run, environment(smoothed.device, model, voter.rows))) as writer:
        check_inputs(writer, indices)
        voter.rows = recorded_rows(writer, smoothed.rows)
        on_progress(len(writer.done), 0)
        size = inputs_per_group(spec, smoothed.scheme, voter.rows, math.prod(data.shape))
        left = unfinished(indices, size, writer.done)
        groups = prefetch(load_group(data, examples) for examples in left)
        for records in compute_records(spec, voter, groups, on_progress):
            fresh = [record for record in records if record.example not in writer.done]
            writer.append(fresh)
            on_progress(len(fresh), 0)
