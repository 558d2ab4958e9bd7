"""`sparsecert train TABLE`: boosted trees for a CSV or Parquet file."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from sparsecert.cli import options
from sparsecert.errors import InputError

TRAINS = "table", "target", "scheme_keep", "protected", "together", "dropped", "share", "copies", "out", "seed"


def train(
    table: str,
    target: str | None,
    keep: int | None,
    out: str | None,
    protected: tuple[str, ...],
    together: tuple[str, ...],
    dropped: tuple[str, ...],
    share: float | None,
    copies: int | None,
    seed: int,
) -> None:
    """Fits boosted trees on ablated rows of a table."""
    _refuse_others(TRAINS, "is for images; leave it out for a table")
    if target is None or keep is None:
        raise InputError("a table needs --target, the column to predict, and --keep, the features a mask retains")
    from sparsecert.tabular.training import train_table

    folder = out or str(Path("runs") / f"{Path(table).stem}-k{keep}")
    model = train_table(
        table, target, keep, folder,
        protected=protected, together=[[name.strip() for name in group.split(",")] for group in together],
        dropped=dropped, share=0.25 if share is None else share, copies=8 if copies is None else copies, seed=seed,
    )  # fmt: skip
    click.echo(f"wrote {model}")
    click.echo(f"next: sparsecert certify {shlex.quote(folder)} --data {shlex.quote(table)}")


def _refuse_others(known: tuple[str, ...], why: str) -> None:
    """Refuses options that do not apply to a table."""
    context = click.get_current_context()
    names = (parameter.name or "" for parameter in context.command.get_params(context))
    options.refuse_given([name for name in names if name not in known], why)
