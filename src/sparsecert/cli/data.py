"""`sparsecert data`."""

from __future__ import annotations

import click

from sparsecert.cli import options
from sparsecert.errors import InputError


@click.group()
def data() -> None:
    """Data sets: which are there, and how to get them.

    \b
    Example:
      sparsecert data get mnist --data-dir data
    """


@data.command("get")
@click.argument("name")
@options.data_dir
def get(name: str, data_dir: str | None) -> None:
    """Download a data set and check its checksums.

    \b
    Example:
      sparsecert data get mnist --data-dir data
    """
    from sparsecert.cli.progress import download_bar
    from sparsecert.datasets import download

    with download_bar(name) as told:
        fetched = download.get(name, data_dir, progress=told)
    click.echo(fetched.message)


@data.command("list")
@options.data_dir
def list_(data_dir: str | None) -> None:
    """Say which data sets are found, and where.

    \b
    Example:
      sparsecert data list
    """
    from sparsecert import datasets

    for name in datasets.NAMES:
        splits = ("test",) if name == "mnist-sample" else datasets.SPLITS
        try:
            sets = [datasets.load(name, split, data_dir) for split in splits]
            shape, counts = " x ".join(map(str, sets[0].images.shape)), " + ".join(f"{len(part):,}" for part in sets)
            click.echo(f"{name:12}  {counts} images, {shape}, {len(sets[0].classes)} classes")
        except InputError as error:
            click.echo(f"{name:12}  {error}")
