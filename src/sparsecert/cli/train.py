"""`sparsecert train`."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

import click

from sparsecert.cli import options, train_table, train_text, train_whole
from sparsecert.cli.data_source import DataSource
from sparsecert.cli.registered import NameOption, RegisteredCommand, name_option
from sparsecert.errors import InputError
from sparsecert.registry import CERTIFICATES, ENCODINGS, MODELS, RECIPES, RULES, SCHEMES

if TYPE_CHECKING:
    from sparsecert.encodings import Encoding


@click.command(cls=RegisteredCommand, short_help="Train a base classifier on ablated images, rows or texts.")
@click.argument("table", required=False, type=click.Path())
@options.together(
    options.optional_data,
    click.option("--text", "columns", metavar="COLUMN",
                 help="TABLE holds texts in this column, or in several, joined: title,body; by number from 1 where the "
                      "file has no line of names."),
    click.option("--target", metavar="COLUMN", help="Table or texts: the column to predict."),
    click.option("--protected", multiple=True, metavar="COLUMN",
                 help="Table: a column that attackers cannot change, so never ablated; repeatable."),
    click.option("--together", multiple=True, metavar="COLUMN,COLUMN",
                 help="Table: columns that form one unit, such as one-hot columns; repeatable."),
    click.option("--drop", "dropped", multiple=True, metavar="COLUMN",
                 help="Table: a column to ignore, such as a row id; repeatable."),
    click.option("--held-out", "share", type=float,
                 help="Table: share of held-out rows (default: 0.25). Texts: share or number (default: 0)."),
    click.option("--copies", type=int, help="Table, texts: ablated copies of each to train on (default: 8)."),
    click.option("--radius", type=click.IntRange(min=1), metavar="R",
                 help="Texts: replaced words that the vote is trained to withstand (default: 1)."),
    click.option("--estimator", type=click.Choice(["histogram", "lightgbm"]),
                 help="Table: boosted trees of scikit-learn (histogram, the default) or of LightGBM."),
    click.option("--plain", "plain_kind", type=click.Choice(["cnn", "binarized", "robust", "abs"]),
                 help="Instead, a plain network on whole images, as an attack baseline."),
    name_option("--scheme", "scheme_name", default="uniform", show_default=True,
                 registry=SCHEMES, with_options=True,
                 help="Which units a mask retains, where the recipe does not say; `train --scheme lattice --help` "
                      "shows its options."),
    click.option("--unit", metavar="RxC",
                 help="Units are blocks of R x C pixels, for example 2x2 (default: single pixels). Texts: word, the "
                      "default, or token, which takes punctuation apart."),
    click.option("--out", type=click.Path(file_okay=False), metavar="DIR",
                 help="Folder of the run (default for a table or texts: in runs)."),
    name_option("--recipe", "recipe_name", registry=RECIPES,
                 help="Training recipe (default: the data set's)."),
    click.option("--model", "model_name", cls=NameOption, type=options.ModelName(MODELS),
                 help="Architecture (default: the recipe's)."),
    click.option("--init", type=click.Path(), metavar="FILE",
                 help="Weights to start from: a model file, or a state dict (.safetensors, .pt, .pth) of the same "
                      "network for whole images."),
    click.option("--restore", is_flag=True,
                 help="Keep the network of --init as it is, and train a second one that fills what is NULL for it."),
    name_option("--encoding", "encoding_name", registry=ENCODINGS, with_options=True,
                 help="How NULL is encoded (default: the scheme's, mostly null-channels)."),
    click.option("--mask-per", type=click.Choice(["minibatch", "sample"]),
                 help="Draw a mask per minibatch (the paper) or per sample (default: the recipe's)."),
    click.option("--epochs", type=int, help="Epochs; the learning-rate schedule is scaled to fit."),
    click.option("--batch", type=int, help="Global batch size, over all processes (default: the recipe's)."),
    click.option("--precision", type=click.Choice(["fp32", "bf16"]),
                 help="Precision of matrix products (default: the recipe's)."),
    click.option("--checkpoint-seconds", default=60.0, show_default=True, help="Seconds between checkpoints."),
    click.option("--half", is_flag=True, help="Store the weights in half precision, in half the space."),
    name_option("--bound", registry=CERTIFICATES,
                 help="Bound by which this model's certificates are computed unless `certify --bound` says otherwise "
                 "(default: pairwise for random masks)."),
    name_option("--rule", registry=RULES,
                 help="Fixed masks: rule by which this model elects a class unless --rule says otherwise."),
    click.option("--workers", type=int, help="Processes that decode images (default: one per CPU, at most 16)."),
    options.data_dir,
    options.skip_bad,
    options.resize,
    options.seed,
    options.device,
)  # fmt: skip
def train(
    table: str | None,
    data_name: str | None,
    columns: str | None,
    target: str | None,
    protected: tuple[str, ...],
    together: tuple[str, ...],
    dropped: tuple[str, ...],
    share: float | None,
    copies: int | None,
    radius: int | None,
    estimator: str | None,
    plain_kind: str | None,
    scheme_name: str,
    scheme_settings: dict[str, Any],
    unit: str | None,
    out: str | None,
    recipe_name: str | None,
    model_name: str | None,
    init: str | None,
    restore: bool,
    encoding_name: str | None,
    encoding_settings: dict[str, Any],
    mask_per: str | None,
    epochs: int | None,
    batch: int | None,
    precision: str | None,
    checkpoint_seconds: float,
    half: bool,
    bound: str | None,
    rule: str | None,
    workers: int | None,
    data_dir: str | None,
    skip_bad: bool,
    resize: int | None,
    seed: int,
    device: str,
) -> None:
    """Train a base classifier on ablated inputs, or a plain network on whole ones.

    With TABLE, a CSV or Parquet file, the inputs are rows instead of images: boosted trees (scikit-learn) are fitted on
    rows with all but --keep features NULL. Text columns become numbers; a missing value looks like NULL. With --scheme
    partition the columns are dealt into --parts parts, each with trees of its own, that learn independently.

    With --text, TABLE is a CSV, TSV or JSON lines file of texts, and a unit is a word: a network is trained on texts of
    which all but a --share of the words are hidden, or all but one of --parts parts (--scheme partition). Certificates
    are for replaced words; inserted and deleted ones are not covered.

    Parts that learn independently (tables with --scheme partition, images with --recipe independent-mnist) have
    certificates that also hold if the same units are perturbed in all training inputs.

    Rerun the same command to resume. Under torchrun, several processes (GPUs, machines) share each batch and produce
    the same weights as one.

    Uniform masks retain --keep random pixels. The other schemes except random-values are fixed sets of masks: training
    draws from them, and `certify` uses all of them, so that its certificates are deterministic. Lattice and partition
    are for sparse attacks, blocks and bands (Levine & Feizi 2020) for patch attacks. Random-values (Lee et al. 2019)
    replaces units by other values instead of ablating them.

    Plain networks: a CNN, the same on images binarized at 0.5, one with L-infinity adversarial training (eps 0.3 on
    MNIST, as Madry et al. 2018), and analysis by synthesis (Schott et al. 2019; MNIST alone), which writes
    binarized.safetensors for binary inference beside its model. The last two need a GPU in practice.

    \b
    Examples:
      sparsecert train --data mnist --keep 45 --out runs/mnist-k45
      sparsecert train --data cifar10 --keep 50 --out runs/cifar10-k50
      sparsecert train --data mnist --scheme lattice --parts 28 --out runs/lattice
      sparsecert train --data cifar10 --scheme bands --size 4 --out runs/bands
      sparsecert train --data mnist --scheme random-values --kappa 0.1 --out k01
      sparsecert train --data mnist --model my_nets:small --out runs/small
      sparsecert train --data mnist --recipe fine-tune --init net.pt --out net
      sparsecert train --data mnist --restore --init net.pt --out runs/frozen
      sparsecert train --data mnist --plain robust --out runs/mnist-robust
      torchrun --nproc-per-node 8 -m sparsecert train --data imagenet --out runs/8
      sparsecert train table.csv --target y --keep 5
      sparsecert train table.csv --target y --scheme partition --parts 8
      sparsecert train texts.tsv --text sentence --target label
    """
    if columns is not None:
        train_text.train(
            table, columns, target, scheme_name, scheme_settings, encoding_name, model_name, out, unit, share, copies,
            radius, epochs, batch, bound, rule, seed, device,
        )  # fmt: skip
        return
    if table is not None:
        train_table.train(
            table, target, scheme_name, scheme_settings, out, protected, together, dropped, share, copies, estimator,
            seed,
        )  # fmt: skip
        return
    options.refuse_given(TABULAR, "is for a table; give its file: sparsecert train table.csv --target y --keep 5")
    if data_name is None or out is None:
        raise InputError("give --data and --out, or a table file and its --target")
    if plain_kind is not None:
        train_whole.train_plain(
            plain_kind, data_name, out, epochs, batch, precision, checkpoint_seconds, data_dir, seed, device
        )
        return
    high, wide = _block(unit)
    from dataclasses import replace

    from sparsecert import modelfile, training
    from sparsecert.cli.progress import training_bar
    from sparsecert.devices import device_named
    from sparsecert.encodings import Grouped, blocks_of
    from sparsecert.procedures.procedure import refuse_other_masks
    from sparsecert.schemes import SchemeSpec
    from sparsecert.training.recipes import recipe_for

    source = DataSource(data_name, "train", data_dir, skip_bad, resize)
    source.refuse_in_memory(["workers"])
    data = source.load_images()
    recipe = recipe_for(data, recipe_name).shortened(epochs)
    if recipe.scheme != "uniform" and "scheme_name" not in options.given():
        options.refuse_given(["scheme_keep"], f"is for --scheme uniform; recipe {recipe.name} has {recipe.scheme}")
        spec = SchemeSpec.parse(recipe.scheme)
    else:
        if scheme_settings.get("keep", 0) is None:
            scheme_settings["keep"] = recipe.keep
        spec = SchemeSpec(scheme_name, **scheme_settings)
    changed: dict[str, Any] = {"model": model_name, "batch": batch, "precision": precision}
    recipe = replace(recipe, **{name: value for name, value in changed.items() if value is not None})
    recipe = recipe.for_scheme(spec, mask_per)
    channels, height, width = data.images.shape
    scheme = spec.of(-(-height // high), -(-width // wide), channels)
    kind = ENCODINGS[encoding_name or scheme.encoding]
    given = {name: value for name, value in encoding_settings.items() if value is not None}
    encoding: Encoding = kind.for_training(data, recipe, scheme, **given)
    if (high, wide) != (1, 1):
        if scheme.values is not None:
            raise InputError(f"--unit is for ablation, and {spec.kind} ablates nothing; leave it out")
        encoding = Grouped(encoding, blocks_of(height, width, high, wide))
    encoding.check_scheme(scheme)
    own = {name: value for name, value in (("bound", bound), ("rule", rule)) if value is not None}
    refuse_other_masks(scheme, {name: f"--{name}" for name in own})
    next_command = f"sparsecert certify {shlex.quote(out)} {source.words('test')}"
    next_command += f" --model {recipe.model}" if ":" in recipe.model else ""
    next_command += f" --out {shlex.quote(f'{out}/certify.jsonl')}"
    if restore:
        train_whole.train_frozen(data, recipe.model, init, out, scheme, encoding, own, epochs, batch, seed, device)
        click.echo(f"next: {next_command}")
        return
    with (
        training.join_process_group(device_named(device)) as (processes, own_device),
        training_bar(out=out, follows=not processes.is_main) as on_progress,
    ):
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
            processes=processes,
            workers=workers,
            init=init,
            own=own or None,
            on_progress=on_progress,
        )
    if processes.is_main:
        modelfile.add_metadata(model, **own)  # of a model that was finished before
        click.echo(f"wrote {model}")
        click.echo(f"next: {next_command}")
    if processes.size > 1:
        training.exit_process()


TABULAR = "target", "radius", "protected", "together", "dropped", "share", "copies", "estimator"


def _block(text: str | None) -> tuple[int, int]:
    """The rows and columns of a unit."""
    if text is None:
        return 1, 1
    found = re.fullmatch(r"([1-9]\d{0,3})x([1-9]\d{0,3})", text)
    if found is None:
        raise InputError(f"--unit must be RxC pixels, for example 2x2, got {text!r}")
    return int(found[1]), int(found[2])
