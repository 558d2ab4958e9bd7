"""`sparsecert predict`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sparsecert.cli import options

if TYPE_CHECKING:
    from sparsecert.procedures import Procedure
    from sparsecert.schemes import Scheme


@click.command(short_help="Predict a data set by vote, abstaining where votes are close.")
@click.argument("model", type=click.Path())
@options.together(
    options.data,
    options.network,
    options.answers_file,
    options.selection,
    options.n,
    options.alpha,
    options.bound,
    options.rule,
    options.rankings,
    options.seed,
    options.on_cluster,
    options.data_files,
    options.computation,
)
def predict(model: str, n: int, alpha: float | None, bound: str | None, rule: str | None, **run: Any) -> None:
    """Predict a data set by vote, abstaining where the top two classes are too close.

    MODEL is a model file, the folder of a training run, or the name of a shipped model, such as mnist-k45 (`sparsecert
    info` lists them). Rerun the same command to resume.

    With --bound pairwise a tenth of the copies choose a class and the others test whether it beats every other one: the
    classifier that `certify --bound pairwise` certifies. The two other bounds predict alike.

    With a fixed set of masks (`train --scheme lattice`, ...), all masks vote: the answer is the winner by --rule, and
    the model never abstains.

    \b
    Examples:
      sparsecert predict runs/mnist-k45 --data mnist --out predict.jsonl
      sparsecert predict runs/table-k5 --data new-rows.csv --out answers.csv
    """
    from sparsecert.cli.voting import record_votes
    from sparsecert.procedures import Exact, Fixed
    from sparsecert.schemes import FixedMasks

    def procedure(scheme: Scheme) -> Procedure:
        return Exact(rule) if isinstance(scheme, FixedMasks) else Fixed(n=n, bound=bound)

    record_votes("predict", model, procedure, alpha, **run)
