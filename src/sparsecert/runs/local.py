"""A run on this machine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparsecert.counts import Int64
from sparsecert.inputs import Inputs
from sparsecert.progress import OnProgress, ignore
from sparsecert.records import Header, Writer
from sparsecert.runs.groups import Limit, Shard, indices_of, load_batch, load_group, prefetch, unfinished
from sparsecert.runs.header import check_inputs, environment, recorded_rows, run_info, with_recorded_precision
from sparsecert.runs.run_spec import RunSpec, compute_records, inputs_per_group
from sparsecert.smoothed import Smoothed


@dataclass(frozen=True)
class DatasetRun:
    """A run over a data set: what it asks, of which classifier and inputs, and the file of its records.

    `model` is the file that `smoothed` was loaded from.
    """

    spec: RunSpec
    smoothed: Smoothed
    model: str | Path
    data: Inputs
    out: str | Path
    limit: Limit = None
    shard: Shard | None = None
    on_progress: OnProgress = ignore

    def prepare(self) -> tuple[Smoothed, dict[str, Any], Int64]:
        """The classifier in the precision of its records, what their header says of the run, and the run's inputs.

        Refuses invalid settings before any work is done or file written.
        """
        self.spec.check(self.smoothed.scheme)
        smoothed = with_recorded_precision(self.smoothed, self.out)
        settings = self.spec.settings(smoothed.scheme)
        run = run_info(smoothed, self.model, self.data, self.limit, self.shard, settings)
        return smoothed, run, indices_of(self.data, self.limit, self.shard)


def record_all(run: DatasetRun) -> None:
    """Computes and records the groups that are not completely recorded, each as a whole.

    Rows per forward pass and inputs per group are those of the header, so a resumed run puts the same copies into the
    same batches as an uninterrupted one and ends with the same counts, floating point included.
    """
    spec, data, on_progress = run.spec, run.data, run.on_progress
    smoothed, info, indices = run.prepare()
    voter = smoothed.voter(load_batch(data, [0]), len(data.classes))
    with Writer(run.out, Header(spec.kind, info, environment(smoothed.device, run.model, voter.rows))) as writer:
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
