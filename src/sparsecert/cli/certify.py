"""`sparsecert certify`."""

from __future__ import annotations

import click

from sparsecert.cli import options


@click.command()
@click.argument("model", type=click.Path())
@options.together(
    options.data,
    options.out_file,
    options.split,
    options.limit,
    click.option("--n0", default=1_000, show_default=True, help="Ablated copies per input to choose its class with."),
    options.n,
    options.alpha,
    options.bound,
    options.seed,
    options.data_dir,
    options.device,
    options.precision,
    options.rows,
)
def certify(
    model: str,
    data_name: str,
    out: str | None,
    split: str,
    limit: int | None,
    n0: int,
    n: int,
    alpha: float,
    bound: str,
    seed: int,
    data_dir: str | None,
    device: str,
    precision: str | None,
    rows: int | None,
) -> None:
    """Certify a data set and record every input's votes.

    MODEL is a model file, the folder of the run that trained it, or a model that ships with the package (mnist-k45,
    mnist-k30). A run that was stopped is continued by the same command.

    \b
    Examples:
      sparsecert certify mnist-k45 --data mnist
      sparsecert certify runs/mnist-k45 --data mnist --out runs/mnist-k45/certify.jsonl
    """
    from sparsecert import datasets, records
    from sparsecert.cli.progress import inputs_bar
    from sparsecert.reports import FORMATS, summarise
    from sparsecert.runs import certify_dataset

    out = options.records_file(out, model, "certify", data_name)
    smoothed = options.load_model(model, device, precision, rows)
    data = datasets.load(data_name, split, data_dir)
    with inputs_bar("certifying", len(data.spaced(limit)), n0 + n) as told:
        certify_dataset(
            smoothed, model, data, out, n0=n0, n=n, alpha=alpha, seed=seed, bound=bound, limit=limit, told=told
        )
    click.echo(FORMATS["terminal"]([summarise(records.read(out))]))
    click.echo(f"wrote {out}")
