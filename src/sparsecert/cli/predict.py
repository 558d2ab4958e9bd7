"""`sparsecert predict`."""

from __future__ import annotations

import click

from sparsecert.cli import options


@click.command(short_help="Predict a data set by vote, abstaining where votes are close.")
@click.argument("model", type=click.Path())
@options.together(
    options.data,
    options.out_file,
    options.split,
    options.limit,
    options.drawn,
    options.n,
    options.alpha,
    options.rule,
    options.seed,
    options.shard,
    options.ray,
    options.workers,
    options.cpus_per_worker,
    options.gpus_per_worker,
    options.data_dir,
    options.skip_bad,
    options.device,
    options.precision,
    options.rows,
)
def predict(
    model: str,
    data_name: str,
    out: str | None,
    split: str,
    limit: int | None,
    drawn: bool,
    n: int,
    alpha: float,
    rule: str | None,
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
    """Predict a data set by vote, abstaining where the top two classes are too close.

    MODEL is a model file, the folder of a training run, or a shipped model (mnist-k45, mnist-k30, mnist-lattice-28).
    Rerun the same command to resume.

    With a fixed set of masks (`train --scheme lattice`, ...), all masks vote: the answer is the winner by --rule, and
    the model never abstains.

    \b
    Example:
      sparsecert predict runs/mnist-k45 --data mnist --out predict.jsonl
    """
    from sparsecert import records
    from sparsecert.cli.progress import inputs_bar
    from sparsecert.procedures import Exact, Fixed
    from sparsecert.procedures.exact import fixed
    from sparsecert.reports import FORMATS, summarise
    from sparsecert.runs import Shard, predict_dataset

    part = None if shard is None else Shard.parse(shard)
    which = options.chosen(limit, drawn, seed)
    cluster = options.cluster(ray, workers, cpus_per_worker, gpus_per_worker, device)
    out = options.records_file(out, model, "predict", data_name, part)
    smoothed = options.load_model(model, device, precision, rows, out, cluster)
    exact = options.has_fixed_masks(smoothed)
    procedure = Exact(rule or fixed(smoothed.scheme).rule) if exact else Fixed(n=n)
    data = options.load_inputs(smoothed, data_name, split, data_dir, skip_bad, limit)
    verb, copies = options.computing("predicting", smoothed, cluster), options.masks(smoothed) or n
    with inputs_bar(verb, options.inputs(data, which, part), copies) as on_progress:
        predict_dataset(
            smoothed, model, data, out,
            procedure, alpha=None if exact else alpha, seed=seed,
            limit=which, shard=part, cluster=cluster, on_progress=on_progress,
        )  # fmt: skip
    click.echo(FORMATS["terminal"]([summarise(records.read(out))]))
    click.echo(f"wrote {out}")
