"""`sparsecert certify`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sparsecert.cli import options
from sparsecert.errors import InputError

if TYPE_CHECKING:
    from sparsecert.procedures import Procedure
    from sparsecert.schemes import Scheme


@click.command()
@click.argument("model", type=click.Path())
@options.together(
    options.data,
    options.network,
    options.answers_file,
    options.selection,
    click.option("--n0", default=1_000, show_default=True, help="Ablated copies per input for class selection."),
    click.option("--n", type=int, help="Ablated copies per input for estimation (default: 10000)."),
    options.sampling,
    options.at_least,
    options.max_samples,
    options.tolerance,
    options.alpha,
    options.bound,
    options.rule,
    options.against,
    options.rankings,
    options.seconds,
    options.seed,
    options.on_cluster,
    options.data_files,
    options.computation,
)
def certify(
    model: str,
    n0: int,
    n: int | None,
    sampling: str,
    at_least: int | None,
    max_samples: int | None,
    tolerance: float | None,
    alpha: float | None,
    bound: str | None,
    rule: str | None,
    against: str | None,
    seconds: float | None,
    **run: Any,
) -> None:
    """Certify a data set and record every input's votes.

    MODEL is a model file, the folder of a training run, or the name of a shipped model, such as mnist-k45 (`sparsecert
    info` lists them). Rerun the same command to resume.

    For a model of a table (`train table.csv`), --data is a table file: of the training table, only the held-out rows
    are certified. New rows need no target column: --out answers.csv holds the answer and radius of each.

    With a fixed set of masks (`train --scheme lattice`, ...), all masks vote and the certificate is exact: it is
    deterministic, without alpha, and the records keep each mask's ranking of the classes.

    \b
    Certificate            when                      fails with     passes
    pairwise               random masks              at most alpha  n0 + n
    two-sided              --bound two-sided         at most alpha  n0 + n
    one-sided              as in the paper           at most alpha  n0 + n
    --sampling sequential  fewer votes               at most alpha  as needed
    --at-least R           only "is it R or more?"   at most alpha  as needed
    exact, pairwise        train --scheme lattice    never          1 per mask
    exact, other rules     --rule plurality          never          1 per mask
    exact, patches         train --scheme bands      never          1 per position
    random values          --scheme random-values    at most alpha  n0 + n
    report --top, --averts, --flags: more questions  at most alpha  none
    Exact certificates assume that a copy gets the same scores in any batch;
    patches, a perturbation within one square; random values, finitely many values
    per entry; --top, --averts and --flags, a class fixed before the votes.
    Units: pixels, or blocks of them (`train --unit`). See docs/certificates.md

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
      sparsecert certify runs/table-k5 --data new-rows.csv --out answers.csv
    """
    from sparsecert.cli.voting import record_votes
    from sparsecert.procedures import Exact, Fixed, Sequential
    from sparsecert.schemes import FixedMasks

    _check_sampling(sampling, n, at_least, max_samples, tolerance)

    def procedure(scheme: Scheme) -> Procedure:
        if isinstance(scheme, FixedMasks):
            return Exact(rule, against, seconds or 0.0)
        if sampling == "fixed":
            return Fixed(n0, 10_000 if n is None else n, bound)
        asked = {} if tolerance is None else {"tolerance": tolerance}
        return Sequential(max_samples, n0, at_least=at_least, bound=bound, **asked)

    record_votes("certify", model, procedure, alpha, **run)


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
        raise InputError("--n is for fixed sampling; with --sampling sequential use --max-samples")
    elif at_least is not None and tolerance is not None:
        raise InputError(
            "--tolerance does not apply to --at-least, which samples until it decides or reaches the budget"
        )
