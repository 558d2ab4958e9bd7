"""`sparsecert train` for networks of whole images: plain ones, and given ones behind a restorer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from sparsecert.cli import options
from sparsecert.cli.data_source import DataSource
from sparsecert.errors import InputError

if TYPE_CHECKING:
    from sparsecert.datasets import Dataset
    from sparsecert.encodings import Encoding
    from sparsecert.schemes import Scheme

NOT_FROZEN = "mask_per", "precision", "half", "workers", "checkpoint_seconds"
NOT_PLAIN = (
    "unit", "recipe_name", "model_name", "init", "restore", "mask_per", "half", "bound", "rule", "workers", "skip_bad",
    "resize",
)  # fmt: skip


def train_frozen(
    data: Dataset,
    model: str,
    init: str | None,
    out: str,
    scheme: Scheme,
    encoding: Encoding,
    own: Mapping[str, str],
    epochs: int | None,
    batch: int | None,
    seed: int,
    device: str,
) -> None:
    """Trains a restorer for the network of --init, which stays as it is."""
    options.refuse_given(NOT_FROZEN, "is for training the classifier; leave it out, or leave out --restore")
    if init is None:
        raise InputError("--restore keeps a network as it is: give its weights, --init net.pt")
    from sparsecert.cli.progress import training_bar
    from sparsecert.devices import device_named
    from sparsecert.training import restorer

    batch = batch or restorer.BATCH
    steps = restorer.STEPS if epochs is None else epochs * -(-len(data) // batch)
    with training_bar("training the restorer", out) as on_progress:
        path = restorer.train_frozen(
            data,
            model,
            init,
            out,
            scheme=scheme,
            encoding=encoding,
            own=own or None,
            steps=steps,
            batch=batch,
            seed=seed,
            device=device_named(device),
            on_progress=on_progress,
        )
    click.echo(f"wrote {path}")


def train_plain(
    kind: str,
    data_name: str,
    out: str,
    epochs: int | None,
    batch: int | None,
    precision: str | None,
    checkpoint_seconds: float,
    data_dir: str | None,
    seed: int,
    device: str,
) -> None:
    """Trains a plain network and reports its accuracy."""
    context = click.get_current_context()
    names = [param.name or "" for param in context.command.get_params(context)]
    ablation = [name for name in names if name.startswith(("scheme_", "encoding_"))]
    options.refuse_given(
        [*NOT_PLAIN, *ablation], "is for training on ablated inputs; leave it out, or leave out --plain"
    )
    from dataclasses import replace

    from sparsecert import plain
    from sparsecert.cli.progress import training_bar
    from sparsecert.devices import device_named

    recipe = plain.plain_recipe(data_name, kind)
    if precision is not None and not recipe.adversarial:
        raise InputError(f"--precision is for the attack steps of --plain robust; leave it out with --plain {kind}")
    changed: dict[str, Any] = {"epochs": epochs, "batch": batch, "precision": precision}
    recipe = replace(recipe, **{name: value for name, value in changed.items() if value is not None})
    data, test = (DataSource(data_name, split, data_dir).load_images() for split in ("train", "test"))
    with training_bar(out=out) as on_progress:
        path = plain.train_plain(
            data,
            test,
            recipe,
            out,
            seed=seed,
            device=device_named(device),
            checkpoint_seconds=checkpoint_seconds,
            on_progress=on_progress,
        )
    found = plain.load(path)[1]["test"]
    click.echo(f"accuracy on {found['images']:,} test images: {found['accuracy']:.2%}")
    if (binarized := path.with_name(plain.BINARIZED_NAME)).exists():
        click.echo(f"on the same images binarized: {plain.load(binarized)[1]['test']['accuracy']:.2%}")
    if "attacked" in found:
        share, images = found["accuracy_under_attack"], f"{found['attacked']:,} of them"
        click.echo(f"under L-infinity PGD ({recipe.ascent_steps} steps, eps {recipe.eps}), on {images}: {share:.2%}")
    click.echo(f"wrote {path}")
