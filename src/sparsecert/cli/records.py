"""`sparsecert records`."""

from __future__ import annotations

import click


@click.group()
def records() -> None:
    """Merge the records of a run's shards.

    \b
    Example:
      sparsecert records merge runs/*-of-8.jsonl --out runs/certify.jsonl
    """


@records.command("merge", short_help="Merge the shards of a run into one records file.")
@click.argument("shards", nargs=-1, required=True, type=click.Path(), metavar="SHARD...")
@click.option("--out", required=True, type=click.Path(dir_okay=False), metavar="FILE", help="A new file.")
def merge(shards: tuple[str, ...], out: str) -> None:
    """Merge all shards of a run, written with --shard 1/N to N/N, into one records file.

    \b
    Example:
      sparsecert certify mnist-k45 --data mnist --shard 1/2
      sparsecert certify mnist-k45 --data mnist --shard 2/2
      sparsecert records merge runs/*-of-2.jsonl --out runs/certify.jsonl
    """
    from sparsecert.records.merging import merge as merged

    whole = merged(shards, out)
    click.echo(f"wrote {out}: {len(whole.lines)} inputs from {len(shards)} shards")
