"""`sparsecert average`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from sparsecert.errors import InputError


@click.command(short_help="Average several models into one.")
@click.argument("models", nargs=-1, required=True, type=click.Path(), metavar="MODEL...")
@click.option("--mirrored", is_flag=True, help="Score every copy of an image also flipped left to right.")
@click.option("--half", is_flag=True, help="Store the weights in half precision, in half the space.")
@click.option("--out", required=True, type=click.Path(file_okay=False), metavar="DIR", help="Folder of the new model.")
def average(models: tuple[str, ...], mirrored: bool, half: bool, out: str) -> None:
    """Average several models into one, whose copies get the mean of their probabilities.

    MODEL is a model file, the folder of a training run, or the name of a shipped model. All must have the same masks,
    encoding and classes: usually they are of one recipe and different seeds, whose mistakes differ. Certifying then
    costs as much as with all of them together, and with --mirrored, for networks trained on flipped images, twice as
    much. Networks of your own are averaged in Python (`sc.averaged`).

    \b
    Examples:
      sparsecert train --data cifar10 --recipe grid-cifar10 --seed 0 --out runs/0
      sparsecert train --data cifar10 --recipe grid-cifar10 --seed 1 --out runs/1
      sparsecert average runs/0 runs/1 --mirrored --out runs/both
      sparsecert certify runs/both --data cifar10
    """
    from torch import nn

    from sparsecert.modelfile import MODEL_NAME
    from sparsecert.models import architecture_of
    from sparsecert.models.average import averaged
    from sparsecert.smoothed import Smoothed

    if len(models) == 1 and not mirrored:
        raise InputError(f"there is nothing to average {models[0]} with; name another model, or add --mirrored")
    file = Path(out) / MODEL_NAME
    if file.exists():
        raise InputError(f"{file} exists already; name another --out folder, or delete that file")
    found = [Smoothed.load(model) for model in models]
    first, networks = found[0], list[nn.Module]()
    for model, other in zip(models, found, strict=True):
        for part in ("scheme", "encoding"):
            wanted, there = getattr(first, part), getattr(other, part)
            if there.config() != wanted.config():
                raise InputError(f"{model} has another {part} than {models[0]}: {there}, not {wanted}")
        if not isinstance(other.model, nn.Module) or architecture_of(other.model) is None:
            raise InputError(f"{model} holds no network of this package, so the average could not be saved")
        networks.append(other.model)
    metadata = _common([one.metadata for one in found])
    if mirrored:
        metadata.pop("independent", None)  # see `Averaged`
    net = averaged(networks, mirrored)
    Path(out).mkdir(parents=True, exist_ok=True)
    Smoothed(net, first.scheme, first.encoding, classes=first.classes, metadata=metadata).save(file, half=half)
    click.echo(f"wrote {file}")
    click.echo(f"next: sparsecert certify {shlex.quote(out)} --data {metadata.get('data', 'NAME')}")


def _common(facts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What all of them say, part by part."""
    first, *others = facts
    found: dict[str, Any] = {}
    for name, value in first.items():
        values = [value, *(other.get(name) for other in others)]
        if all(isinstance(one, dict) for one in values):
            found[name] = _common(values)
        elif all(one == value for one in values):
            found[name] = value
    return found
