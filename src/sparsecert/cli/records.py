"""`sparsecert records`."""

from __future__ import annotations

import click


@click.group()
def records() -> None:
    """Records files: join the shards of a run.

    \b
    Example:
      sparsecert records merge runs/*-of-8.jsonl --out runs/certify.jsonl
    """


@records.command("merge", short_help="Join the shards of one run into the records of it all.")
@click.argument("shards", nargs=-1, required=True, type=click.Path(), metavar="SHARD...")
@click.option("--out", required=True, type=click.Path(dir_okay=False), metavar="FILE", help="A file that is not there.")
def merge(shards: tuple[str, ...], out: str) -> None:
    """Join all the shards of one run, written by --shard 1/N to N/N, into the records of the whole run.

    \b
    Example:
      sparsecert certify mnist-k45 --data mnist --shard 1/2
      sparsecert certify mnist-k45 --data mnist --shard 2/2
      sparsecert records merge runs/*-of-2.jsonl --out runs/certify.jsonl
    """
    from sparsecert.records.merging import merge as merged

    whole = merged(shards, out)
    click.echo(f"wrote {out}: {len(whole.lines)} inputs from {len(shards)} shards")
