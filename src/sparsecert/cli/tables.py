"""`sparsecert train TABLE` and `sparsecert certify MODEL --data TABLE`: tables from CSV or Parquet files."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click

from sparsecert.cli import options
from sparsecert.errors import InputError

TRAINS = "table", "target", "scheme_keep", "protected", "together", "dropped", "share", "copies", "out", "seed"
CHANCE = "n0", "n", "alpha", "bound", "seed"
CERTIFIES = "model", "data_name", "out", "limit", "n0", "n", "alpha", "bound", "seed"


def is_table(data: str) -> bool:
    """Whether data is a file: image sets are folders or names."""
    return Path(data).expanduser().is_file()


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
        raise InputError("a table needs --target, the column to predict, and --keep, the features that a mask retains")
    from sparsecert.tabular.run import train_table

    folder = out or str(Path("runs") / f"{Path(table).stem}-k{keep}")
    model = train_table(
        table, target, keep, folder,
        protected=protected, together=[_names(group) for group in together],
        dropped=dropped, share=0.25 if share is None else share, copies=8 if copies is None else copies, seed=seed,
    )  # fmt: skip
    click.echo(f"wrote {model}")
    click.echo(f"next: sparsecert certify {shlex.quote(folder)} --data {shlex.quote(table)}")


def certify(
    model: str, table: str, out: str, limit: int | None, n0: int, n: int | None, alpha: float, bound: str, seed: int
) -> None:
    """Certifies the rows of a table, over all cores."""
    _refuse_others(CERTIFIES, "is for images; leave it out for a table")
    from sparsecert import modelfile, records, schemes
    from sparsecert.reports import FORMATS, summarise
    from sparsecert.tabular.run import certify_table

    header = modelfile.read_header(model)
    scheme = schemes.from_config(header["scheme"]) if header.get("kind") == "table" else None
    if isinstance(scheme, schemes.FixedMasks):
        why = f"all {len(scheme.table)} masks of this model vote, and nothing is left to chance"
        options.refuse_given(CHANCE, f"is for masks drawn at random; {why}: leave it out")
    certify_table(
        model, table, out, n0=n0, n=10_000 if n is None else n, alpha=alpha, bound=bound, seed=seed, limit=limit,
        jobs=os.cpu_count() or 1,
    )  # fmt: skip
    click.echo(FORMATS["terminal"]([summarise(records.read(out))]))
    click.echo(f"wrote {out}")


def _names(group: str) -> list[str]:
    return [name.strip() for name in group.split(",")]


def _refuse_others(known: tuple[str, ...], why: str) -> None:
    """Refuses options of the command that mean nothing for a table."""
    context = click.get_current_context()
    names = (parameter.name or "" for parameter in context.command.get_params(context))
    options.refuse_given([name for name in names if name not in known], why)
