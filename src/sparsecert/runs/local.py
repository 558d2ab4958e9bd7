"""A run on this machine."""

from __future__ import annotations

import math
from pathlib import Path

from sparsecert.datasets import Dataset
from sparsecert.progress import OnProgress, ignore
from sparsecert.records import Header, Writer
from sparsecert.runs.header import as_begun, check_inputs, environment, facts, rows_of
from sparsecert.runs.inputs import Limit, Shard, group_of, indices_of, one_ahead, pixels, unfinished
from sparsecert.runs.questions import Question, answer, inputs_at_once
from sparsecert.smoothed import Smoothed


def record_all(
    question: Question,
    smoothed: Smoothed,
    model: str | Path,
    data: Dataset,
    out: str | Path,
    limit: Limit = None,
    shard: Shard | None = None,
    on_progress: OnProgress = ignore,
) -> None:
    """The groups that are not wholly recorded, each computed whole.

    The rows per forward pass and the inputs per group are those of the header, so a resumed run puts the same copies
    into the same batches as an uninterrupted one and ends with the same counts, floating point included.
    """
    question.check(smoothed.scheme)
    smoothed = as_begun(smoothed, out)
    run = facts(smoothed, model, data, limit, shard, question.facts(smoothed.scheme))
    indices = indices_of(data, limit, shard)
    voter = smoothed.voter(pixels(data, [0]), len(data.classes))
    with Writer(out, Header(question.kind, run, environment(smoothed.device, model, voter.rows))) as writer:
        check_inputs(writer, indices)
        voter.rows = rows_of(writer, smoothed.rows)
        on_progress(len(writer.done), 0)
        size = inputs_at_once(question, smoothed.scheme, voter.rows, math.prod(data.images.shape))
        left = unfinished(indices, size, writer.done)
        groups = one_ahead(group_of(data, examples) for examples in left)
        for records in answer(question, voter, groups, on_progress):
            fresh = [record for record in records if record.example not in writer.done]
            writer.append(fresh)
            on_progress(len(fresh), 0)
