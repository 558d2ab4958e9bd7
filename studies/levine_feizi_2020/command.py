"""The command line of the study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from sparsecert.cli import options
from sparsecert.cli.interrupted import saying_kept
from sparsecert.cli.report import FORMAT_NAMES
from sparsecert.devices import device_named
from sparsecert.errors import InputError
from sparsecert.reports.tables import table_text
from sparsecert.schemes import SchemeSpec
from studies.levine_feizi_2020.progress import Progress
from studies.levine_feizi_2020.study import RESULTS, Study
from studies.levine_feizi_2020.targets import TARGETS, Request

NAME = "python -m studies.levine_feizi_2020"
LISTED = "\n".join(f"{name:<10} {target.help}" for name, target in TARGETS.items())
HELP = f"""Measure the paper's tables and figures again and print them beside the published numbers.

\b
{LISTED}

Trains, predicts, certifies and attacks what is missing in --out; rerun the same command to resume. On a CUDA device all
missing models of table-1 are trained at once, larger ones one after the other. Without --out the committed records are
used.

MNIST is certified on all test images, CIFAR-10 on 1,000 evenly spaced ones, Imagenette on 400 drawn at random, unless
--limit says otherwise; a row that has records of more images shows those. exact and patches are certified on all test
images, blocks on 1,000. table-2 attacks 275 evenly spaced images of MNIST; the exit code is 1 if an attack changes a
certified answer within its radius.

\b
Examples:
  {NAME} table-1
  {NAME} table-1 --keeps 45 --out runs/small
  {NAME} table-2 figure-3 --out runs/attacks
  {NAME} table-4 --recipe paper-cifar10
  {NAME} exact --data mnist --epochs 200
"""


@click.command(help=HELP, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.pass_context
@click.argument("targets", nargs=-1, required=True, type=click.Choice(list(TARGETS)), metavar="TARGET...")
@options.together(
    click.option("--out", default=RESULTS, type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
                 help="Folder of models, records and figures (default: the study's own results)."),
    click.option("--data", metavar="NAME",
                 help=f"For {', '.join(name for name, target in TARGETS.items() if 'data' in target.options)}: mnist, "
                 "cifar10, imagenette, imagenet or a folder."),
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
    click.option("--attack", metavar="NAME,NAME,...", multiple=True,
                 help="table-2: by these too: pointwise-fresh (k = 45 alone, asked as in the paper), pointwise-rounds, "
                      "sparse-rs, saliency, jsma, carlini-wagner, noise."),
    click.option("--restarts", type=click.IntRange(1), help="Of the Pointwise attack and of noise, instead of 10."),
    click.option("--group", type=click.IntRange(1),
                 help="Images attacked at once (default: all on a GPU, otherwise as memory suits)."),
    click.option("--format", "form", default="terminal", show_default=True, type=click.Choice(FORMAT_NAMES)),
    options.seed,
    options.data_dir,
    options.device,
    options.precision,
    click.option("--checkpoint-seconds", default=300.0, show_default=True, help="Time between training checkpoints."),
)  # fmt: skip
def command(
    context: click.Context,
    targets: tuple[str, ...],
    out: Path,
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
    attack: tuple[str, ...],
    restarts: int | None,
    group: int | None,
    form: str,
    seed: int,
    data_dir: str | None,
    device: str,
    precision: str | None,
    checkpoint_seconds: float,
) -> None:
    _refuse_idle_options(targets)
    plan = [(target, name) for target in targets for name in TARGETS[target].data_sets(target, data)]
    _refuse_two_data_sets(recipe, [name for target, name in plan if "recipe" in TARGETS[target].options])
    request = Request(
        keeps=_whole_numbers(keeps),
        masks=None if masks is None else list(dict.fromkeys(map(SchemeSpec.parse, _parts(masks)))),
        kappas=None if kappas is None else _parts(kappas),
        values=values,
        attacks=[name for text in attack for name in _parts(text)],
        restarts=restarts,
        group=group,
    )
    study = Study(
        out,
        data_dir=data_dir,
        device=device_named(device),
        precision=None if precision == "auto" else precision,
        seed=seed,
        limit=limit,
        epochs=epochs,
        n0=n0,
        n=n,
        checkpoint_seconds=checkpoint_seconds,
        progress=Progress(shown=True),
    )
    alarms: list[str] = []
    for target, name in plan:
        own = recipe if "recipe" in TARGETS[target].options else None
        with saying_kept(lambda: f"finished models and records are in {out}"):
            made = TARGETS[target].make(replace(study, data=name, recipe=own), request)
        for table in made.tables:
            click.echo(table_text(table, form))
        for path in made.figures:
            click.echo(f"wrote {path}", err=True)
        alarms += made.alarms
    for line in alarms:
        click.echo(line, err=True)
    context.exit(int(bool(alarms)))


def _refuse_idle_options(targets: Sequence[str]) -> None:
    """Refuses an option that none of the targets uses."""
    known = {option for target in TARGETS.values() for option in target.options}
    idle = known - {option for target in targets for option in TARGETS[target].options}
    options.refuse_given(idle, f"has no effect on {', '.join(targets)}; leave it out")


def _refuse_two_data_sets(recipe: str | None, names: Sequence[str]) -> None:
    """Refuses a recipe for several data sets: it is made for one of them."""
    several = list(dict.fromkeys(names))
    if recipe is not None and len(several) > 1:
        raise InputError(
            f"--recipe is for one data set, these targets have {' and '.join(several)}; measure one at a time"
        )


def _parts(text: str) -> list[str]:
    """The distinct parts of a comma-separated text."""
    return list(dict.fromkeys(part.strip() for part in text.split(",")))


def _whole_numbers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    parts = _parts(text)
    if not all(part.isdecimal() and int(part) for part in parts):
        raise InputError(f"keeps must be whole numbers from 1 on with commas between, as in 40,45, got {text!r}")
    return list(dict.fromkeys(map(int, parts)))
