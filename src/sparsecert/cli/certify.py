"""`sparsecert certify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sparsecert.cli import options, tables
from sparsecert.errors import InputError

if TYPE_CHECKING:
    from sparsecert.procedures import Procedure


@click.command()
@click.argument("model", type=click.Path())
@options.together(
    options.data,
    options.out_file,
    options.split,
    options.limit,
    options.drawn,
    click.option("--n0", default=1_000, show_default=True, help="Ablated copies per input to choose its class with."),
    click.option("--n", type=int, help="Ablated copies per input to estimate with (default: 10000)."),
    options.sampling,
    options.at_least,
    options.max_samples,
    options.tolerance,
    options.alpha,
    options.bound,
    options.rule,
    options.against,
    options.seconds,
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
def certify(
    model: str,
    data_name: str,
    out: str | None,
    split: str,
    limit: int | None,
    drawn: bool,
    n0: int,
    n: int | None,
    sampling: str,
    at_least: int | None,
    max_samples: int | None,
    tolerance: float | None,
    alpha: float,
    bound: str,
    rule: str | None,
    against: str | None,
    seconds: float | None,
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
    """Certify a data set and record every input's votes.

    MODEL is a model file, the folder of the run that trained it, or a model that ships with the package (mnist-k45,
    mnist-k30, mnist-lattice-28). A run that was stopped is continued by the same command.

    Of a model that was trained on a table (`train table.csv`), --data is the file of a table: of the one that it was
    trained on, the held-out rows are certified; of any other, all.

    Where the model votes by a fixed set of masks (`train --scheme lattice`, ...), every mask is shown and the
    certificate is exact: it holds always, there is no alpha, and the record keeps how each mask ranked the classes.

    \b
    Certificate            when                      fails with     passes
    two-sided (default)    masks drawn at random     at most alpha  n0 + n
    one-sided              the paper's own figure    at most alpha  n0 + n
    --sampling sequential  fewer votes               at most alpha  as it needs
    --at-least R           only "is it R or more?"   at most alpha  as it needs
    exact, run-off         train --scheme lattice    never          one a mask
    exact, plurality       --rule plurality          never          one a mask
    exact, patches         train --scheme bands      never          one a position
    random values          --scheme random-values    at most alpha  n0 + n
    report --top, --averts, --flags: more questions  at most alpha  none
    Exact ones assume that a copy gets the same scores in any batch; patches, that
    what is altered is in one square; random values, finitely many values of each
    entry; --top, --averts and --flags, a class that is named before the votes.
    Units: pixels, or blocks of them by `train --unit`. More: docs/certificates.md

    \b
    Examples:
      sparsecert certify mnist-k45 --data mnist
      sparsecert certify mnist-k45 --data mnist --sampling sequential
      sparsecert certify mnist-k45 --data mnist --sampling sequential --at-least 8
      sparsecert certify runs/mnist-k45 --data mnist --out certify.jsonl
      sparsecert certify mnist-k45 --data mnist --ray auto --workers 8
      sparsecert certify mnist-k45 --data mnist --shard 2/8
      sparsecert certify mnist-k45 --data mnist --limit 400 --random
      sparsecert certify mnist-lattice-28 --data mnist
      sparsecert certify runs/table-k5 --data table.csv
    """
    if tables.is_table(data_name):
        out = options.records_file(out, model, "certify", Path(data_name).stem)
        tables.certify(model, data_name, out, limit, n0, n, alpha, bound, seed)
        return
    from sparsecert import records
    from sparsecert.cli.progress import inputs_bar
    from sparsecert.procedures import Exact, Fixed, Sequential
    from sparsecert.reports import FORMATS, summarise
    from sparsecert.runs import Shard, certify_dataset

    _check_sampling(sampling, n, at_least, max_samples, tolerance)
    part = None if shard is None else Shard.parse(shard)
    which = options.chosen(limit, drawn, seed)
    cluster = options.cluster(ray, workers, cpus_per_worker, gpus_per_worker, device)
    out = options.records_file(out, model, "certify", data_name, part)
    smoothed = options.load_model(model, device, precision, rows, out, cluster)
    if options.has_fixed_masks(smoothed):
        procedure: Procedure = Exact(rule or "run-off", against, seconds or 0.0)
        copies, level = options.masks(smoothed), None
    elif sampling == "sequential":
        asked = {} if tolerance is None else {"tolerance": tolerance}
        procedure = Sequential(max_samples, n0, at_least=at_least, bound=bound, **asked)
        copies, level = None, alpha
    else:
        procedure = Fixed(n0, 10_000 if n is None else n, bound)
        copies, level = procedure.n0 + procedure.n, alpha
    procedure.check(smoothed.scheme, level, seed)
    data = options.load_data(data_name, split, data_dir, skip_bad, limit)
    verb = options.computing("certifying", smoothed, cluster)
    with inputs_bar(verb, options.inputs(data, which, part), copies) as on_progress:
        certify_dataset(
            smoothed, model, data, out, procedure, alpha=level, seed=seed,
            limit=which, shard=part, cluster=cluster, on_progress=on_progress,
        )  # fmt: skip
    click.echo(FORMATS["terminal"]([summarise(records.read(out))]))
    click.echo(f"wrote {out}")


def _check_sampling(
    kind: str, n: int | None, at_least: int | None, max_samples: int | None, tolerance: float | None
) -> None:
    """Refuses options of the other kind of sampling."""
    if kind == "fixed":
        given = {"--at-least": at_least, "--max-samples": max_samples, "--tolerance": tolerance}
        for name, value in given.items():
            if value is not None:
                raise InputError(f"{name} is for sequential sampling; add --sampling sequential")
    elif n is not None:
        raise InputError("--n is for a fixed number of samples; with --sampling sequential use --max-samples")
    elif at_least is not None and tolerance is not None:
        raise InputError("--tolerance is to settle a radius; --at-least goes on until the answer or the budget")
