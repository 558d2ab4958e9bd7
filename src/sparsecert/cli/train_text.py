"""`sparsecert train FILE --text COLUMN`: a network for texts."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from sparsecert.cli import options
from sparsecert.cli.train_table import refuse_others
from sparsecert.errors import InputError

SCHEMES = "share", "partition"
PARTS = 1_000  # by default every word votes by itself, up to so many
TRAINS = (
    "table", "columns", "target", "scheme_name", "encoding_name", "model_name", "out", "unit", "share", "copies",
    "radius", "epochs", "batch", "bound", "rule", "seed", "device",
)  # fmt: skip


def train(
    path: str | None,
    columns: str,
    target: str | None,
    scheme_name: str,
    scheme_settings: dict[str, Any],
    encoding_name: str | None,
    model_name: str | None,
    out: str | None,
    unit: str | None,
    share: float | None,
    copies: int | None,
    radius: int | None,
    epochs: int | None,
    batch: int | None,
    bound: str | None,
    rule: str | None,
    seed: int,
    device: str,
) -> None:
    """Trains a network on ablated texts and says how to certify it."""
    if "scheme_name" not in options.given():
        options.refuse_given(["scheme_keep"], "is for inputs of one length; for texts use --scheme share --share 0.1")
        scheme_name, scheme_settings = "partition", {"parts": PARTS}
    if scheme_name not in SCHEMES:
        raise InputError(f"--scheme {scheme_name} is for images; for texts use {' or '.join(SCHEMES)}")
    own_options = (f"scheme_{name}" for name in scheme_settings)
    refuse_others((*TRAINS, *own_options), "is for images or tables; leave it out for texts")
    if path is None or target is None:
        raise InputError("texts need a file and --target, the column of their classes: sparsecert train texts.tsv ...")
    from sparsecert.cli.progress import training_bar
    from sparsecert.devices import device_named
    from sparsecert.procedures.procedure import refuse_other_masks
    from sparsecert.registry import SCHEMES as KINDS
    from sparsecert.schemes import SchemeSpec
    from sparsecert.training.texts import TextRecipe, train_texts

    spec = SchemeSpec(scheme_name, **scheme_settings)
    scheme = KINDS[scheme_name](units=None, **spec.settings)  # type: ignore[call-arg]
    own = {name: value for name, value in (("bound", bound), ("rule", rule)) if value is not None}
    refuse_other_masks(scheme, {name: f"--{name}" for name in own})
    asked: dict[str, Any] = {
        "model": model_name,
        "encoding": encoding_name,
        "copies": copies,
        "batch": batch,
        "words": radius,
    }
    recipe = replace(TextRecipe(), **{name: value for name, value in asked.items() if value is not None})
    recipe = recipe if epochs is None else recipe.shortened(epochs)
    folder = out or str(Path("runs") / f"{Path(path).stem}-{spec}")
    with training_bar(out=folder) as on_progress:
        model = train_texts(
            path, columns, target, scheme, folder, recipe,
            unit=unit or "word", share=share or 0.0, own=own or None, seed=seed, device=device_named(device),
            on_progress=on_progress,
        )  # fmt: skip
    data = path if share else "YOUR-TEST-TEXTS"
    click.echo(f"wrote {model}")
    click.echo(f"next: sparsecert certify {shlex.quote(folder)} --data {shlex.quote(data)}")
