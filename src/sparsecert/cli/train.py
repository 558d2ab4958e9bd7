"""`sparsecert train`."""

from __future__ import annotations

import shlex
from typing import Any

import click

from sparsecert.cli import options
from sparsecert.errors import InputError


@click.command()
@options.together(
    options.data,
    click.option("--plain", "plain_kind", type=click.Choice(["cnn", "binarized", "robust"]),
                 help="Instead, a plain network on whole images, to attack beside smoothed classifiers."),
    click.option("--keep", type=int, help="Units retained in each ablated copy (default: the recipe's)."),
    click.option("--kappa", metavar="P",
                 help="Instead of ablation, random values (Lee et al. 2019): a unit is kept with this probability, and "
                 "otherwise replaced by another value; one draw per sample unless --masks says otherwise."),
    click.option("--values", type=int, help="With --kappa: how many values a unit has (default: 256)."),
    click.option("--out", required=True, type=click.Path(file_okay=False), metavar="DIR", help="Folder of the run."),
    click.option("--recipe", "recipe_name", metavar="NAME",
                 help="paper-mnist, paper-cifar10, paper-imagenet, modern-cifar10, modern-imagenette, digits."),
    click.option("--model", "model_name", metavar="NAME", help="Architecture, if not the recipe's."),
    click.option("--encoding", "encoding_name", default="null-channels", show_default=True,
                 type=click.Choice(["null-channels", "mean-fill"]), help="How NULL is shown to the model."),
    click.option("--masks", type=click.Choice(["minibatch", "sample"]),
                 help="One mask per minibatch (the paper) or per sample, if not as in the recipe."),
    click.option("--epochs", type=int, help="Epochs; the learning rate falls at the same shares of them."),
    click.option("--batch", type=int, help="Batch size, if not the recipe's; of all processes together."),
    click.option("--precision", type=click.Choice(["fp32", "bf16"]), help="Of the products, if not the recipe's."),
    click.option("--checkpoint-seconds", default=60.0, show_default=True, help="Time between checkpoints."),
    click.option("--half", is_flag=True, help="Store the weights in half precision: a file of half the size."),
    click.option("--workers", type=int, help="Processes that decode photographs (default: one per CPU, at most 16)."),
    options.data_dir,
    options.skip_bad,
    options.seed,
    options.device,
)  # fmt: skip
def train(
    data_name: str,
    plain_kind: str | None,
    keep: int | None,
    kappa: str | None,
    values: int | None,
    out: str,
    recipe_name: str | None,
    model_name: str | None,
    encoding_name: str,
    masks: str | None,
    epochs: int | None,
    batch: int | None,
    precision: str | None,
    checkpoint_seconds: float,
    half: bool,
    workers: int | None,
    data_dir: str | None,
    skip_bad: bool,
    seed: int,
    device: str,
) -> None:
    """Train a base classifier on ablated inputs, or a plain network on whole ones.

    A run that was stopped is continued by the same command. Started by torchrun, several processes (GPUs, machines)
    share each batch, and end in the weights that one would.

    Plain networks: a CNN, the same on images binarized at 0.5, and one trained against L-infinity changes (of 0.3
    on MNIST, as Madry et al. 2018; made for a GPU).

    \b
    Examples:
      sparsecert train --data mnist --keep 45 --out runs/mnist-k45
      sparsecert train --data cifar10 --recipe modern-cifar10 --keep 50 --out runs/cifar10-k50
      sparsecert train --data mnist --kappa 0.1 --out runs/mnist-kappa-0.1
      sparsecert train --data mnist --plain robust --out runs/mnist-robust
      torchrun --nproc-per-node 8 -m sparsecert train --data imagenet --keep 1000 --out runs/imagenet-k1000
    """
    if plain_kind is not None:
        _train_plain(plain_kind, data_name, out, epochs, batch, precision, checkpoint_seconds, data_dir, seed, device)
        return
    from dataclasses import replace

    from sparsecert import training
    from sparsecert.cli.progress import training_bar
    from sparsecert.devices import device_named
    from sparsecert.recipes import recipe_for
    from sparsecert.schemes import Scheme, Uniform

    _check_random_values(kappa, values, keep)
    recipe = recipe_for(data_name, recipe_name).shortened(epochs)
    changed: dict[str, Any] = {
        "model": model_name,
        "masks": masks if masks is not None or kappa is None else "sample",
        "batch": batch,
        "keep": keep,
        "precision": precision,
    }
    recipe = replace(recipe, **{name: value for name, value in changed.items() if value is not None})
    data = options.load_data(data_name, "train", data_dir, skip_bad)
    encoding = training.default_encoding(data, recipe, encoding_name)
    scheme: Scheme = Uniform(encoding.units(data.images.shape), recipe.keep)
    if kappa is not None:
        scheme, encoding = training.random_values(data, kappa, values or 256)
    with training.joined(device_named(device)) as (team, own_device), training_bar() as told:
        model = training.train(
            data,
            recipe,
            out,
            scheme=scheme,
            encoding=encoding,
            seed=seed,
            device=own_device,
            checkpoint_seconds=checkpoint_seconds,
            half=half,
            team=team,
            workers=workers,
            told=told if team.leads else None,
        )
    if team.leads:
        click.echo(f"wrote {model}")
        records = shlex.quote(f"{out}/certify.jsonl")
        click.echo(f"next: sparsecert certify {shlex.quote(out)} --data {shlex.quote(data_name)} --out {records}")
    if team.size > 1:
        training.leave()


def _check_random_values(kappa: str | None, values: int | None, keep: int | None) -> None:
    """Refuses options of two schemes at once."""
    from click.core import ParameterSource

    if kappa is None:
        if values is not None:
            raise InputError("--values is for random values; give --kappa with it, or leave it out")
        return
    source = click.get_current_context().get_parameter_source("encoding_name")
    if keep is not None or source == ParameterSource.COMMANDLINE:
        raise InputError("--keep and --encoding are for ablation; leave them out, or leave out --kappa")


NOT_PLAIN = (
    "keep",
    "kappa",
    "values",
    "recipe_name",
    "model_name",
    "encoding_name",
    "masks",
    "half",
    "workers",
    "skip_bad",
)


def _train_plain(
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
    """Trains a plain network and says how often it is right."""
    _refuse_options_of_ablated_training()
    from dataclasses import replace

    from sparsecert import plain
    from sparsecert.cli.progress import training_bar
    from sparsecert.devices import device_named

    recipe = plain.plain_recipe(data_name, kind)
    if precision is not None and not recipe.adversarial:
        raise InputError(f"--precision is of the ascent of --plain robust; --plain {kind} has none, leave it out")
    changed: dict[str, Any] = {"epochs": epochs, "batch": batch, "precision": precision}
    recipe = replace(recipe, **{name: value for name, value in changed.items() if value is not None})
    data, test = (options.load_data(data_name, split, data_dir, skip_bad=False) for split in ("train", "test"))
    with training_bar() as told:
        path = plain.train_plain(
            data,
            test,
            recipe,
            out,
            seed=seed,
            device=device_named(device),
            checkpoint_seconds=checkpoint_seconds,
            told=told,
        )
    found = plain.load(path)[1]["test"]
    click.echo(f"accuracy on {found['images']:,} test images: {found['accuracy']:.2%}")
    if "attacked" in found:
        share, images = found["accuracy_under_attack"], f"{found['attacked']:,} of them"
        click.echo(f"under {recipe.ascent_steps} steps within {recipe.eps} in L-infinity, on {images}: {share:.2%}")
    click.echo(f"wrote {path}")


def _refuse_options_of_ablated_training() -> None:
    from click.core import ParameterSource

    context = click.get_current_context()
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name or "") == ParameterSource.COMMANDLINE
        if given and parameter.name in NOT_PLAIN:
            raise InputError(
                f"{parameter.opts[0]} is for training on ablated inputs; leave it out, or leave out --plain"
            )
