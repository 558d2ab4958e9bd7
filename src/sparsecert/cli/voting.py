"""What `certify` and `predict` share: from their options to the records and the table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from sparsecert import records
from sparsecert.cli import options
from sparsecert.cli.data_source import DataSource
from sparsecert.cli.progress import inputs_bar
from sparsecert.inputs import Inputs
from sparsecert.procedures import Procedure, Sequential, procedure_for
from sparsecert.procedures.procedure import refuse_other_masks
from sparsecert.records import Records
from sparsecert.reports import FORMATS, summarise
from sparsecert.runs import Cluster, Limit, Shard, certify_dataset, predict_dataset
from sparsecert.runs.groups import indices_of
from sparsecert.runs.header import with_recorded_precision
from sparsecert.schemes import Scheme
from sparsecert.smoothed import Smoothed


def record_votes(
    verb: str,
    model: str,
    procedure_of: Callable[[Scheme], Procedure],
    alpha: float | None,
    *,
    data_name: str,
    network: str | None,
    out: str | None,
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
    out = options.records_file(out, model, verb, data_name, part)
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
    )  # fmt: skip
    click.echo(FORMATS["terminal"]([summarise(found)]))
    click.echo(f"wrote {out}")


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
) -> Records:
    """Certifies or predicts a data set under a progress bar, and returns the records."""
    copies: int | None
    if verb == "predict":
        run, copies = predict_dataset, procedure.first_votes(smoothed.scheme)
    else:
        run, copies = certify_dataset, procedure.most_votes(smoothed.scheme)
    if isinstance(procedure, Sequential):
        copies = None  # not known before
    with inputs_bar(label, len(indices_of(data, limit, shard)), copies) as on_progress:
        run(
            smoothed, model, data, out, procedure,
            alpha=alpha, seed=seed, limit=limit, shard=shard, cluster=cluster, on_progress=on_progress,
        )  # fmt: skip
    return records.read(out)
