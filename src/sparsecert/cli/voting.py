"""What `certify` and `predict` share: from their options to the records and the table."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np

from sparsecert import records
from sparsecert.cli import options
from sparsecert.cli.data_source import DataSource
from sparsecert.cli.progress import inputs_bar
from sparsecert.errors import OneClassWarning
from sparsecert.files import write_atomically
from sparsecert.inputs import Inputs
from sparsecert.procedures import Procedure, Sequential, procedure_for
from sparsecert.procedures.procedure import refuse_other_masks
from sparsecert.records import PREDICT, Records
from sparsecert.reports import FORMATS, summarise
from sparsecert.reports.answers import answer_lines, answers_csv
from sparsecert.reports.tables import list_text
from sparsecert.runs import Cluster, DatasetRun, Limit, RunSpec, Shard, record_run
from sparsecert.runs.groups import indices_of
from sparsecert.runs.header import with_recorded_precision
from sparsecert.schemes import AllSubsets, Scheme
from sparsecert.smoothed import Smoothed
from sparsecert.votes.one_class import overrated


def record_votes(
    verb: str,
    model: str,
    procedure_of: Callable[[Scheme], Procedure],
    alpha: float | None,
    *,
    data_name: str,
    network: str | None,
    out: str | None,
    rankings: bool | None,
    split: str,
    limit: int | None,
    drawn: bool,
    seed: int,
    shard: str | None,
    ray: str | None,
    workers: int | None,
    cpus_per_worker: float | None,
    gpus_per_worker: float | None,
    data_dir: str | None,
    skip_bad: bool,
    resize: int | None,
    device: str,
    precision: str | None,
    rows: int | None,
) -> None:
    """Certifies or predicts a data set, records its votes and prints their summary."""
    part = None if shard is None else Shard.parse(shard)
    which = options.chosen(limit, drawn, seed)
    cluster = options.cluster(ray, workers, cpus_per_worker, gpus_per_worker, device)
    answers = Path(out) if out is not None and Path(out).suffix.lower() == ".csv" else None
    out = options.records_file(
        out if answers is None else str(answers.with_suffix(".jsonl")), model, verb, data_name, part
    )
    own_device = device if cluster is None else "cpu"
    smoothed = Smoothed.load(model, network, own_device, precision=precision, rows=rows)
    smoothed = with_recorded_precision(smoothed, out)
    scheme = smoothed.scheme
    refuse_other_masks(scheme, {name: flag for name, flag in options.given().items() if name != "seed" or not drawn})
    procedure = procedure_for(smoothed, procedure_of(scheme))
    procedure.check(scheme, procedure.level(alpha), seed)
    data = DataSource(data_name, split, data_dir, skip_bad, resize, limit).load(smoothed.metadata)
    label = options.computing(f"{verb}ing", smoothed, cluster)
    found = record(
        verb, label, smoothed, model, data, out, procedure,
        alpha=alpha, seed=seed, limit=which, shard=part, cluster=cluster,
        rankings=keeps_rankings(scheme, out) if rankings is None else rankings,
    )  # fmt: skip
    if found.header.labelled:
        click.echo(FORMATS["terminal"]([summarise(found)]))
    else:
        click.echo(list_text(answer_lines(found)))
    if answers is not None:
        write_atomically(answers, answers_csv(found).encode())
        click.echo(f"wrote {answers}")
    click.echo(f"wrote {out}")


def keeps_rankings(scheme: Scheme, out: str | Path) -> bool:
    """Whether records keep rankings by default: as the file does, if it exists, else unless all subsets are masks."""
    started = records.read_header(out) if Path(out).is_file() else None
    if started is not None:
        return records.has_rankings(started[0])
    return not isinstance(scheme, AllSubsets)


def record(
    verb: str,
    label: str,
    smoothed: Smoothed,
    model: str | Path,
    data: Inputs,
    out: str | Path,
    procedure: Procedure,
    *,
    alpha: float | None,
    seed: int,
    limit: Limit,
    shard: Shard | None = None,
    cluster: Cluster | None = None,
    rankings: bool = True,
) -> Records:
    """Certifies or predicts a data set under a progress bar, and returns the records."""
    procedure = procedure_for(smoothed, procedure)
    spec = RunSpec(verb, procedure, procedure.level(alpha), seed, rankings)
    copies: int | None = (procedure.first_votes if verb == PREDICT else procedure.most_votes)(smoothed.scheme)
    if isinstance(procedure, Sequential):
        copies = None  # not known before
    with inputs_bar(label, len(indices_of(data, limit, shard)), copies, out=out) as on_progress:
        record_run(DatasetRun(spec, smoothed, model, data, out, limit, shard, on_progress), cluster)
    found = records.read(out)
    if found.header.labelled:
        _warn_of_one_class(found, data)
    return found


def _warn_of_one_class(found: Records, data: Inputs) -> None:
    """Warns where one class gets nearly all answers and is right for few of them: the certificates are of no use."""
    pairs = np.array([(line.label, line.true) for line in found.lines if line.label is not None], dtype=np.int64)
    answers, true = (np.bincount(labels, minlength=len(data.classes)) for labels in pairs.reshape(-1, 2).T)
    if (leader := overrated(answers, true)) is not None:
        name = "" if data.classes[leader] == str(leader) else f" ({data.classes[leader]})"
        warnings.warn(
            f"class {leader}{name} is the answer to {answers[leader]:,} of {len(pairs):,} inputs and the true class of "
            f"{true[leader]:,}; train the model longer, or on ablated copies, or its certificates are of no use",
            OneClassWarning,
            stacklevel=2,
        )
