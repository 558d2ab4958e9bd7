"""`sparsecert reproduce`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sparsecert.cli import options
from sparsecert.cli.report import FORMAT_NAMES
from sparsecert.errors import InputError

if TYPE_CHECKING:
    from sparsecert.reports.comparison import Table
    from sparsecert.reproduce import Cell, Study
    from sparsecert.reproduce.attacked import Attacked
    from sparsecert.schemes import Choice
    from sparsecert.training import TrainingProgress

SMALLER = "keeps", "limit", "epochs", "n0", "n"  # options that make a run smaller
ATTACKING = "restarts", "group"
USED = {  # the options that each target obeys
    "headline": ("limit", "n0", "n"),
    "table-1": (*SMALLER, "recipe"),
    "table-2": ("limit", "epochs", "n", "attack", *ATTACKING),
    "table-3": (*SMALLER, "recipe"),
    "table-4": ("keeps", "limit", "epochs", "n", "recipe"),
    "table-5": ("keeps", "limit", "epochs", "n", "recipe"),
    "table-6": (*SMALLER, "recipe", "data"),
    "table-7": (*SMALLER, "recipe", "kappas", "values"),
    "table-8": (*SMALLER, "recipe", "data"),
    "footnote": (*SMALLER, "recipe"),
    "exact": ("masks", "limit", "epochs", "recipe", "data"),
    "patches": ("masks", "limit", "epochs", "recipe", "data"),
    "recipes": (*SMALLER, "data"),
    "figure-1": SMALLER,
    "figure-2": (),
    "figure-3": ("limit", "n", *ATTACKING),
    "figure-4": (),
    "figure-5": ("limit", "n", *ATTACKING),
    "curves": (*SMALLER, "recipe", "data"),
}
DATA = {  # the data sets of each target, the usual one first; "photographs": any folder in ImageNet's layout
    "table-3": ("cifar10",),
    "table-4": ("cifar10",),
    "table-5": ("cifar10",),
    "table-6": ("imagenette", "imagenet", "photographs"),
    "table-8": ("mnist", "cifar10"),
    "exact": ("mnist", "cifar10"),
    "patches": ("mnist", "cifar10"),
    "recipes": ("cifar10", "imagenette"),
    "curves": ("mnist", "cifar10", "imagenette", "imagenet", "photographs"),
}


@click.command(short_help="The paper's tables and figures, measured beside published.")
@click.pass_context
@click.argument("targets", nargs=-1, required=True, type=click.Choice(list(USED)), metavar="TARGET...")
@options.together(
    click.option("--out", default="runs/reproduce", show_default=True, type=click.Path(file_okay=False), metavar="DIR",
                 help="Folder of models, records and figures; what is there is used, what is missing is made."),
    click.option("--data", metavar="NAME",
                 help="For table-6, table-8, exact, patches, recipes and curves: mnist, cifar10, imagenette, imagenet "
                 "or a folder."),
    click.option("--keeps", metavar="K,K,...", help="These numbers of retained pixels, published or not."),
    click.option("--masks", metavar="NAME,NAME,...",
                 help="exact, patches: these fixed sets of masks, for example lattice-28x1,lattice-28x3 or bands-4."),
    click.option("--kappas", metavar="P,P,...", help="table-7: these probabilities of keeping a unit's value."),
    click.option("--values", type=click.IntRange(2), help="table-7: so many values of a unit, instead of 256 and 2."),
    click.option("--recipe", metavar="NAME", help="Train by this recipe, for example paper-cifar10."),
    click.option("--limit", type=int,
                 help="So many test inputs (table-4, table-5: of each split) instead of the target's."),
    click.option("--epochs", type=click.IntRange(1), help="Train for so many epochs instead of the recipe's."),
    click.option("--n0", type=click.IntRange(1), help="Copies to choose the class with, instead of the paper's."),
    click.option("--n", type=click.IntRange(1),
                 help="Copies to estimate and predict (table-2: to answer a query; table-4, table-5: to classify)."),
    click.option("--attack", "attacks", metavar="NAME,NAME,...", multiple=True,
                 help="table-2: by these too: pointwise-fresh (k = 45 alone, asked as in the paper), pointwise-rounds, "
                      "sparse-rs, saliency, jsma, carlini-wagner, noise."),
    click.option("--restarts", type=click.IntRange(1), help="Of the Pointwise attack and of noise, instead of 10."),
    click.option("--group", type=click.IntRange(1),
                 help="Images attacked side by side (default: all on a GPU, otherwise as memory suits)."),
    click.option("--format", "form", default="terminal", show_default=True, type=click.Choice(FORMAT_NAMES)),
    options.seed,
    options.data_dir,
    options.device,
    options.precision,
    click.option("--checkpoint-seconds", default=300.0, show_default=True, help="Time between training checkpoints."),
)  # fmt: skip
def reproduce(
    context: click.Context,
    targets: tuple[str, ...],
    out: str,
    data: str | None,
    keeps: str | None,
    masks: str | None,
    kappas: str | None,
    values: int | None,
    recipe: str | None,
    limit: int | None,
    epochs: int | None,
    n0: int | None,
    n: int | None,
    attacks: tuple[str, ...],
    restarts: int | None,
    group: int | None,
    form: str,
    seed: int,
    data_dir: str | None,
    device: str,
    precision: str | None,
    checkpoint_seconds: float,
) -> None:
    """Measure the paper's tables and figures again and print them beside the published numbers.

    \b
    headline   MNIST sample: the shipped models (no data, no training)
    table-1    MNIST: accuracy and median robustness for k = 5, 10, ..., 100
    table-2    MNIST: the Pointwise attack on k = 45 and on plain classifiers
    table-3    CIFAR-10: as table-1, for k = 25, 50, ..., 150
    table-4    CIFAR-10: the base classifier on training and test images, ResNet18
    table-5    CIFAR-10: the same, ResNet50
    table-6    Imagenette (or --data imagenet, a folder): k = 500, 1000, 2000
    table-7    MNIST: ablation beside random values (Lee et al. 2019)
    table-8    MNIST, CIFAR-10 (or --data one): encodings of NULL, the best k
    exact      MNIST, CIFAR-10: fixed sets of masks, certified exactly
    patches    MNIST, CIFAR-10: bands and blocks against a square patch
    footnote   MNIST: k = 45 with 100 + 100,000 samples at alpha = 0.001
    recipes    CIFAR-10 (or --data imagenette): the paper's recipe and ours
    figure-1   MNIST: an image, its ablations, and the base classifiers' labels
    figure-2   delta against rho (no data needed)
    figure-3   MNIST: adversarial images of k = 45, the first of each class
    figure-4   MNIST sample: an image under the encodings of NULL
    figure-5   MNIST: more of them
    curves     MNIST (or --data cifar10, ...): certified accuracy, the best k

    Trains, predicts, certifies and attacks what is missing; stopped, the same command goes on. On a CUDA device all
    missing models of table-1 are trained side by side, larger ones row by row.

    MNIST is certified on all test images. CIFAR-10 is on 1,000 evenly spaced ones unless --limit says otherwise
    (--limit 10000: all), Imagenette on 400 drawn at random; a row that has records of more images shows those.
    All test images are certified for exact and patches, by blocks 1,000, unless --limit says otherwise.
    table-2 attacks 275 evenly spaced images of MNIST; the exit code is 1 if an attack misclassifies one of them within
    its certified radius.

    \b
    Examples:
      sparsecert reproduce table-1 --out results
      sparsecert reproduce table-1 --keeps 40,45 --limit 500 --out runs/small
      sparsecert reproduce table-2 figure-3 --attack sparse-rs --out results
      sparsecert reproduce table-3 --keeps 10,15,20,25,50 --out results
      sparsecert reproduce table-4 --recipe paper-cifar10 --keeps 75
      sparsecert reproduce curves --data cifar10 --out results
      sparsecert reproduce exact --data mnist --masks lattice-28x1 --out results
    """
    from sparsecert.devices import device_named
    from sparsecert.reproduce import Study
    from sparsecert.reproduce.attacked import Attacked

    names = [name.strip() for part in attacks for name in part.split(",")]
    given = {"keeps": keeps, "limit": limit, "epochs": epochs, "n0": n0, "n": n, "recipe": recipe, "data": data}
    given |= {"masks": masks, "kappas": kappas, "values": values}
    attacking = {"attack": attacks or None, "restarts": restarts, "group": group}
    _refuse_idle_options(targets, [name for name, value in {**given, **attacking}.items() if value is not None])
    plan = [(target, name) for target in targets for name in _data_of(target, data)]
    if recipe is not None:
        _refuse_two_data_sets([name for target, name in plan if "recipe" in USED[target]])
    device = device_named(device)
    study = Study(
        Path(out),
        data_dir=data_dir,
        device=device,
        precision=None if precision == "auto" else precision,
        seed=seed,
        recipe=recipe,
        limit=limit,
        epochs=epochs,
        n0=n0,
        n=n,
        checkpoint_seconds=checkpoint_seconds,
        bars=TerminalBars(),
    )
    alarms: list[str] = []
    for target, name in plan:
        obeyed = recipe if "recipe" in USED[target] else None
        own = replace(study, data=name, recipe=obeyed)
        if target in ("table-2", "figure-3", "figure-5"):
            alarms += _reproduce_attacks(target, Attacked(own, restarts, group), names, form)
        elif target == "table-7":
            _reproduce_schemes(own, _whole_numbers(keeps), kappas, values, form)
        else:
            _reproduce(target, own, _whole_numbers(keeps), _choices(masks), form)
    for line in alarms:
        click.echo(line, err=True)
    context.exit(int(bool(alarms)))


def _refuse_idle_options(targets: Sequence[str], given: Sequence[str]) -> None:
    """Refuses an option that none of the targets uses, rather than let it be thought of as obeyed."""
    used = {option for target in targets for option in USED[target]}
    for name in given:
        if name not in used:
            raise InputError(f"--{name} has no effect on {', '.join(targets)}; leave it out")


def _refuse_two_data_sets(names: Sequence[str]) -> None:
    """Refuses a recipe for several data sets: it is made for one of them."""
    several = list(dict.fromkeys(names))
    if len(several) > 1:
        raise InputError(
            f"--recipe is for one data set, these targets have {' and '.join(several)}; measure one at a time"
        )


def _data_of(target: str, asked: str | None) -> tuple[str, ...]:
    """The data sets that a target is measured on: its usual one, or the one asked for; some have two."""
    from sparsecert.datasets import NAMES

    known = DATA.get(target, ("mnist",))
    if asked is None or "data" not in USED[target]:
        return known if target in ("table-8", "exact", "patches") else known[:1]
    if asked not in known and ("photographs" not in known or asked in NAMES):
        words = ["a folder of train/ and val/" if name == "photographs" else name for name in known]
        raise InputError(f"--data must be one of {', '.join(words)} for {target}, got {asked!r}")
    return (asked,)


def _reproduce(target: str, study: Study, keeps: list[int] | None, choices: list[Choice] | None, form: str) -> None:
    from sparsecert.reports.tables import table_text
    from sparsecert.reproduce.exact import exact
    from sparsecert.reproduce.patches import patches

    drawn: list[Path] = []
    if target == "headline":
        from sparsecert.reproduce.headline import headline

        for table, figures in headline(study):
            click.echo(table_text(table, form))
            drawn += figures
    elif target in ("exact", "patches"):
        table, drawn = (exact if target == "exact" else patches)(study, choices)
        click.echo(table_text(table, form))
    elif target.startswith("figure-") or target == "curves":
        drawn = _figure(target, study, keeps)
    else:
        click.echo(table_text(_table(target, study, keeps), form))
    _say_written(drawn)


def _reproduce_attacks(target: str, attacked: Attacked, others: Sequence[str], form: str) -> tuple[str, ...]:
    """A target that is of attacks; what is to be said loudly at the end."""
    from sparsecert.reports.tables import table_text
    from sparsecert.reproduce.figure_3 import figure_3, figure_5
    from sparsecert.reproduce.table_2 import table_2

    if target == "table-2":
        made = table_2(attacked, others)
        click.echo("\n".join(table_text(table, form) for table in made.tables))
        _say_written(made.drawn)
        return made.alarms
    draw = figure_3 if target == "figure-3" else figure_5
    _say_written(draw(attacked, attacked.study.out / "figures" / target))
    return ()


def _reproduce_schemes(
    study: Study, keeps: list[int] | None, kappas: str | None, values: int | None, form: str
) -> None:
    from sparsecert.reports.tables import table_text
    from sparsecert.reproduce.table_7 import table_7

    asked = None if kappas is None else list(dict.fromkeys(part.strip() for part in kappas.split(",")))
    click.echo(table_text(table_7(study, keeps, asked, values), form))


def _say_written(paths: Sequence[Path]) -> None:
    for path in paths:
        click.echo(f"wrote {path}", err=True)


def _table(target: str, study: Study, keeps: list[int] | None) -> Table:
    from sparsecert.reproduce.base_tables import base_table
    from sparsecert.reproduce.recipes import recipes
    from sparsecert.reproduce.table_6 import table_6
    from sparsecert.reproduce.tables import table

    if target in ("table-4", "table-5"):
        return base_table(study, target, keeps)
    if target == "table-6":
        return table_6(study, keeps)
    if target == "recipes":
        return recipes(study, keeps)
    return table(study, f"table-8-{study.data}" if target == "table-8" else target, keeps)


def _figure(target: str, study: Study, keeps: list[int] | None) -> list[Path]:
    from sparsecert import datasets
    from sparsecert.reproduce.curves import curves
    from sparsecert.reproduce.figure_1 import figure_1
    from sparsecert.reproduce.figure_2 import figure_2
    from sparsecert.reproduce.figure_4 import figure_4

    path = study.out / "figures" / target
    if target == "figure-2":
        return figure_2(path)
    if target == "figure-4":
        return figure_4(datasets.load("mnist-sample"), path, seed=study.seed)
    if target == "figure-1":
        return figure_1(study, path, keeps)
    name = study.folder_of_all.name
    return curves(study, path if name == "mnist" else path.with_name(f"curves-{name}"), keeps)


def _whole_numbers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) for part in parts):
        raise InputError(f"keeps must be whole numbers from 1 on with commas between, as in 40,45, got {text!r}")
    return list(dict.fromkeys(map(int, parts)))


def _choices(text: str | None) -> list[Choice] | None:
    from sparsecert.schemes import Choice

    return None if text is None else list(dict.fromkeys(Choice.parse(part.strip()) for part in text.split(",")))


class TerminalBars:
    """A bar for each thing that takes long, named after its cell."""

    @contextmanager
    def training(self, cells: Sequence[Cell]) -> Iterator[Callable[[TrainingProgress], None]]:
        """One bar for all that are trained side by side."""
        from sparsecert.cli.progress import training_bar

        names = cells[0].folder if len(cells) == 1 else f"{len(cells)} models"
        with training_bar(f"training {names}") as on_progress:
            yield on_progress

    @contextmanager
    def inputs(self, cell: Cell, verb: str, inputs: int, copies: int | None) -> Iterator[Callable[[int, int], None]]:
        """One bar for a cell's records."""
        from sparsecert.cli.progress import inputs_bar

        with inputs_bar(f"{verb} {cell.folder}", inputs, copies) as on_progress:
            yield on_progress

    @contextmanager
    def plain(self, kind: str) -> Iterator[Callable[[TrainingProgress], None]]:
        """One bar for a plain network."""
        from sparsecert.cli.progress import training_bar

        with training_bar(f"training {kind}") as on_progress:
            yield on_progress

    @contextmanager
    def images(self, verb: str, images: int) -> Iterator[Callable[[int, int], None]]:
        """One bar for an attack on a classifier."""
        from sparsecert.cli.progress import attack_bar

        with attack_bar(images, verb) as on_progress:
            yield on_progress

    @contextmanager
    def rows(self, rows: int) -> Iterator[Callable[[], None]]:
        """One bar for all rows of a table."""
        from sparsecert.cli.progress import inputs_bar

        with inputs_bar("certifying the recorded votes", rows, 1, "rows") as on_progress:
            yield lambda: on_progress(1, 0)
