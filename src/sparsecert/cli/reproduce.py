"""`sparsecert reproduce`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sparsecert.cli import options
from sparsecert.cli.report import FORMAT_NAMES
from sparsecert.errors import InputError

if TYPE_CHECKING:
    from sparsecert.reproduce import Cell, Study
    from sparsecert.training import Progress

TABLES = ["table-1", "table-8", "footnote"]
FIGURES = ["figure-1", "figure-2", "figure-4", "curves"]
USED = {"headline": ("limit", "n0", "n"), "figure-2": (), "figure-4": ()}  # of the options that make a run smaller


@click.command()
@click.argument(
    "targets", nargs=-1, required=True, type=click.Choice(["headline", *TABLES, *FIGURES]), metavar="TARGET..."
)
@options.together(
    click.option("--out", default="runs/reproduce", show_default=True, type=click.Path(file_okay=False), metavar="DIR",
                 help="Folder of models, records and figures; what is there is used, what is missing is made."),
    click.option("--keeps", metavar="K,K,...", help="Only these numbers of retained pixels."),
    options.limit,
    click.option("--epochs", type=click.IntRange(1), help="Train for so many epochs instead of the paper's."),
    click.option("--n0", type=click.IntRange(1), help="Copies to choose the class with, instead of the paper's."),
    click.option("--n", type=click.IntRange(1), help="Copies to estimate and predict with, instead of the paper's."),
    click.option("--format", "form", default="terminal", show_default=True, type=click.Choice(FORMAT_NAMES)),
    options.seed,
    options.data_dir,
    options.device,
    click.option("--precision", type=click.Choice(["fp32", "bf16", "fp16"]),
                 help="Of the forward passes (default: bf16 where the device multiplies it in hardware, else fp32)."),
    click.option("--checkpoint-seconds", default=300.0, show_default=True, help="Time between training checkpoints."),
)  # fmt: skip
def reproduce(
    targets: tuple[str, ...],
    out: str,
    keeps: str | None,
    limit: int | None,
    epochs: int | None,
    n0: int | None,
    n: int | None,
    form: str,
    seed: int,
    data_dir: str | None,
    device: str,
    precision: str | None,
    checkpoint_seconds: float,
) -> None:
    """Measure the paper's tables and figures again and print them beside the published numbers.

    \b
    headline   the shipped k = 45 model on the shipped MNIST images (no data or training needed)
    table-1    MNIST: accuracy and median certified robustness for k = 5, 10, ..., 100
    table-8    MNIST: the encodings of NULL at k = 45
    footnote   MNIST: k = 45 with 100 + 100,000 samples at alpha = 0.001
    figure-1   an image, its ablations, and the labels of the base classifiers
    figure-2   delta against rho
    figure-4   an image under the encodings of NULL
    curves     certified accuracy for the best k of each bound

    Trains, predicts and certifies what is missing; stopped, the same command goes on. On a CUDA device all missing
    models are trained side by side.

    \b
    Examples:
      sparsecert reproduce table-1 --out results
      sparsecert reproduce table-1 --keeps 40,45 --limit 500 --out runs/small
    """
    from sparsecert.devices import device_named
    from sparsecert.reproduce import Study

    given = {"keeps": keeps, "limit": limit, "epochs": epochs, "n0": n0, "n": n}
    _refuse_idle_options(targets, [name for name, value in given.items() if value is not None])
    device = device_named(device)
    study = Study(
        Path(out),
        data_dir=data_dir,
        device=device,
        precision=precision,
        seed=seed,
        limit=limit,
        epochs=epochs,
        n0=n0,
        n=n,
        checkpoint_seconds=checkpoint_seconds,
        bars=TerminalBars(),
    )
    for target in targets:
        _reproduce(target, study, _whole_numbers(keeps), form)


def _refuse_idle_options(targets: Sequence[str], given: Sequence[str]) -> None:
    """Refuses an option that none of the targets uses, rather than let it be thought of as obeyed."""
    used = {option for target in targets for option in USED.get(target, ("keeps", "limit", "epochs", "n0", "n"))}
    for name in given:
        if name not in used:
            raise InputError(f"--{name} has no effect on {', '.join(targets)}; leave it out")


def _reproduce(target: str, study: Study, keeps: list[int] | None, form: str) -> None:
    from sparsecert.reports.tables import table_text

    drawn: list[Path] = []
    if target == "headline":
        from sparsecert.reproduce.headline import headline

        table, drawn = headline(study)
        click.echo(table_text(table, form))
    elif target in TABLES:
        from sparsecert.reproduce.tables import table as measured

        click.echo(table_text(measured(study, target, keeps), form))
    else:
        drawn = _figure(target, study, keeps)
    for path in drawn:
        click.echo(f"wrote {path}", err=True)


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
    return figure_1(study, path, keeps) if target == "figure-1" else curves(study, path, keeps)


def _whole_numbers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) for part in parts):
        raise InputError(f"keeps must be whole numbers from 1 on with commas between, as in 40,45, got {text!r}")
    return list(dict.fromkeys(map(int, parts)))


class TerminalBars:
    """A bar for each thing that takes long, named after its cell."""

    @contextmanager
    def training(self, cells: Sequence[Cell]) -> Iterator[Callable[[Progress], None]]:
        """One bar for all that are trained side by side."""
        from sparsecert.cli.progress import training_bar

        names = cells[0].folder if len(cells) == 1 else f"{len(cells)} models"
        with training_bar(f"training {names}") as told:
            yield told

    @contextmanager
    def inputs(self, cell: Cell, verb: str, inputs: int, copies: int) -> Iterator[Callable[[int, int], None]]:
        """One bar for a cell's records."""
        from sparsecert.cli.progress import inputs_bar

        with inputs_bar(f"{verb} {cell.folder}", inputs, copies) as told:
            yield told

    @contextmanager
    def rows(self, rows: int) -> Iterator[Callable[[], None]]:
        """One bar for all rows of a table."""
        from sparsecert.cli.progress import inputs_bar

        with inputs_bar("certifying the recorded votes", rows, 1, "rows") as told:
            yield lambda: told(1, 0)
