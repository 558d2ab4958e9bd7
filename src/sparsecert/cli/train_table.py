"""`sparsecert train TABLE`: boosted trees for a CSV or Parquet file."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sparsecert.cli import options
from sparsecert.errors import InputError

if TYPE_CHECKING:
    from sparsecert.tabular import AblatedClassifier, PartitionedClassifier

SCHEMES = "uniform", "partition"
TRAINS = (
    "table", "target", "scheme_name", "protected", "together", "dropped", "share", "copies", "estimator", "out", "seed",
)  # fmt: skip


def train(
    table: str,
    target: str | None,
    scheme_name: str,
    scheme_settings: dict[str, Any],
    out: str | None,
    protected: tuple[str, ...],
    together: tuple[str, ...],
    dropped: tuple[str, ...],
    share: float | None,
    copies: int | None,
    estimator: str | None,
    seed: int,
) -> None:
    """Fits boosted trees to a table: to ablated rows or, for each part of a partition, to its columns alone."""
    if scheme_name not in SCHEMES:
        raise InputError(f"--scheme {scheme_name} is for images; for a table use {' or '.join(SCHEMES)}")
    own = (f"scheme_{name}" for name in scheme_settings)
    refuse_others((*TRAINS, *own), "is for images; leave it out for a table")
    if target is None or scheme_settings.get("keep", 0) is None:
        raise InputError("a table needs --target, the column to predict, and --keep, the features a mask retains")
    from sparsecert.cli.progress import waiting
    from sparsecert.schemes import SchemeSpec
    from sparsecert.tabular.training import train_table

    spec = SchemeSpec(scheme_name, **scheme_settings)
    if spec.settings.get("contiguous"):
        raise InputError("--contiguous is for units in an order, such as words; leave it out for a table")
    kind = f"k{spec.settings['keep']}" if scheme_name == "uniform" else str(spec)
    folder = out or str(Path("runs") / f"{Path(table).stem}-{kind}")
    with waiting("fitting trees"):
        model = train_table(
            table, target, _classifier(spec.settings, _trees(estimator), copies, seed), folder,
            protected=protected, together=[[name.strip() for name in group.split(",")] for group in together],
            dropped=dropped, share=0.25 if share is None else share, seed=seed, on_columns=_print_columns,
        )  # fmt: skip
    click.echo(f"wrote {model}")
    click.echo(f"next: sparsecert certify {shlex.quote(folder)} --data {shlex.quote(table)}")


def _print_columns(lines: list[tuple[str, str]], suspects: list[str]) -> None:
    """How each column is read, and what to leave out."""
    from sparsecert.reports.tables import list_text

    click.echo(list_text([("column", "read as"), *lines]))
    if suspects:
        drop = shlex.join(word for name in suspects for word in ("--drop", name))
        click.echo(f"no two rows share a value of {', '.join(suspects)}: for identifiers, add {drop}\n", err=True)


def _trees(estimator: str | None) -> Any:
    """The base estimator; LightGBM's such that fitting it again gives the same trees."""
    if estimator != "lightgbm":
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier()
    try:
        from lightgbm import LGBMClassifier
    except ImportError as error:
        raise InputError("--estimator lightgbm needs LightGBM; install it with pip install lightgbm") from error
    return LGBMClassifier(deterministic=True, force_col_wise=True, verbose=-1)


def _classifier(
    settings: dict[str, Any], trees: Any, copies: int | None, seed: int
) -> AblatedClassifier | PartitionedClassifier:
    """The classifier to fit, by the settings of its scheme."""
    from sparsecert.tabular import AblatedClassifier, PartitionedClassifier

    if "keep" in settings:
        return AblatedClassifier(
            trees, keep=settings["keep"], copies=8 if copies is None else copies, random_state=seed
        )
    options.refuse_given(["copies"], "is for --keep: parts learn from whole rows; leave it out")
    return PartitionedClassifier(
        trees, parts=settings["parts"], partitions=settings["rounds"], scheme_seed=settings.get("seed", 0),
        random_state=seed,
    )  # fmt: skip


def refuse_others(known: tuple[str, ...], why: str) -> None:
    """Refuses options that do not apply to a table, or to texts."""
    context = click.get_current_context()
    names = (parameter.name or "" for parameter in context.command.get_params(context))
    options.refuse_given([name for name in names if name not in known], why)
