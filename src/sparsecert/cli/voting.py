"""What `certify` and `predict` share: from their options to the records and the table."""

from __future__ import annotations

from collections.abc import Callable

import click

from sparsecert import records
from sparsecert.cli import options
from sparsecert.cli.progress import inputs_bar
from sparsecert.procedures import Procedure, Sequential
from sparsecert.procedures.procedure import refuse_other_masks
from sparsecert.reports import FORMATS, summarise
from sparsecert.runs import Shard, certify_dataset, predict_dataset
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
    device: str,
    precision: str | None,
    rows: int | None,
) -> None:
    """Certifies or predicts a data set, records its votes and prints their summary."""
    part = None if shard is None else Shard.parse(shard)
    which = options.chosen(limit, drawn, seed)
    cluster = options.cluster(ray, workers, cpus_per_worker, gpus_per_worker, device)
    out = options.records_file(out, model, verb, data_name, part)
    smoothed = Smoothed.load(model, device=device if cluster is None else "cpu", precision=precision, rows=rows)
    smoothed = with_recorded_precision(smoothed, out)
    scheme = smoothed.scheme
    refuse_other_masks(scheme, {name: flag for name, flag in options.given().items() if name != "seed" or not drawn})
    procedure = procedure_of(scheme)
    procedure.check(scheme, procedure.level(alpha), seed)
    data = options.load_inputs(smoothed, data_name, split, data_dir, skip_bad, limit)
    if verb == "certify":
        record, copies = certify_dataset, None if isinstance(procedure, Sequential) else procedure.most_votes(scheme)
    else:
        record, copies = predict_dataset, procedure.first_votes(scheme)
    label = options.computing(f"{verb}ing", smoothed, cluster)
    with inputs_bar(label, len(indices_of(data, which, part)), copies) as on_progress:
        record(
            smoothed, model, data, out, procedure, alpha=alpha, seed=seed,
            limit=which, shard=part, cluster=cluster, on_progress=on_progress,
        )  # fmt: skip
    click.echo(FORMATS["terminal"]([summarise(records.read(out))]))
    click.echo(f"wrote {out}")
