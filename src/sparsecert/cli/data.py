"""`sparsecert data`."""

from __future__ import annotations

import click

from sparsecert.cli import options
from sparsecert.errors import InputError


@click.group()
def data() -> None:
    """List, download and check data sets.

    \b
    Example:
      sparsecert data get mnist --data-dir data
    """


@data.command("get")
@click.argument("name")
@options.data_dir
def get(name: str, data_dir: str | None) -> None:
    """Download a data set and verify its checksums.

    \b
    Example:
      sparsecert data get mnist --data-dir data
    """
    from sparsecert.cli.progress import download_bar
    from sparsecert.datasets import download

    with download_bar(name) as on_progress:
        fetched = download.get(name, data_dir, on_progress=on_progress)
    click.echo(fetched.message)


@data.command("list")
@options.data_dir
def list_(data_dir: str | None) -> None:
    """List the data sets, and where each was found.

    \b
    Example:
      sparsecert data list
    """
    from sparsecert import datasets

    longest = max(map(len, datasets.DATASETS))
    for name in datasets.DATASETS:
        try:
            sets = [datasets.load(name, split, data_dir) for split in datasets.splits_of(name, data_dir)]
            shape, counts = " x ".join(map(str, sets[0].images.shape)), " + ".join(f"{len(part):,}" for part in sets)
            where = "in the package" if sets[0].where is None else f"in {sets[0].where}"
            click.echo(f"{name:{longest}}  {counts} images, {shape}, {len(sets[0].classes)} classes, {where}")
        except InputError as error:
            click.echo(f"{name:{longest}}  {error}")
    click.echo(f"\nsearched: {datasets.data_folder(data_dir).resolve()} (--data-dir, or SPARSECERT_DATA)")


@data.command("check")
@click.argument("name")
@click.option("--split", type=click.Choice(["train", "test"]), help="Only this split (default: all there are).")
@click.option("--workers", type=int, help="Processes (default: one per CPU, at most 16).")
@options.data_dir
@click.pass_context
def check(context: click.Context, name: str, split: str | None, workers: int | None, data_dir: str | None) -> None:
    """Decode every file of an image folder and list the bad ones.

    NAME is imagenette, imagenet or the path of a folder. The exit code is 1 if any file is bad. `train`, `certify` and
    `predict` refuse such files, or skip them with --skip-bad.

    \b
    Examples:
      sparsecert data check imagenet --split train
      sparsecert data check photos
    """
    from sparsecert import datasets
    from sparsecert.cli.data_source import report_non_images
    from sparsecert.cli.progress import files_bar
    from sparsecert.datasets import own
    from sparsecert.datasets.bad_files import find_and_cache_bad_files
    from sparsecert.datasets.folder import FolderImages

    any_bad = False
    for each in (split,) if split else datasets.splits_of(name, data_dir):
        found = datasets.load(name, each, data_dir) if name in datasets.DATASETS else own.load(name, each, None)
        images = found.images
        if not isinstance(images, FolderImages):
            raise InputError(f"{name} is not an image folder; its files are checked whenever it is loaded")
        report_non_images(found)
        with files_bar(f"checking {each}") as on_progress:
            bad = find_and_cache_bad_files(images, workers, on_progress)
        for file, reason in bad.items():
            click.echo(f"{images.root / file} {reason}")
        click.echo(f"{each}: {len(images):,} files, {len(bad):,} bad")
        any_bad = any_bad or bool(bad)
    context.exit(int(any_bad))
