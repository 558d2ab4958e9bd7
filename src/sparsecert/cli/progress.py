"""Progress bars on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

    from sparsecert.training import Progress as TrainingProgress


def _bar(*middle: str) -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        *(TextColumn(text) for text in middle),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )


@contextmanager
def inputs_bar(verb: str, inputs: int, copies: int) -> Iterator[Callable[[int, int], None]]:
    """A bar over `inputs` of `copies` ablated copies each; yields what to tell (inputs done, copies done)."""
    done = 0
    with _bar("{task.fields[done]} of {task.fields[inputs]} inputs") as bar:
        task = bar.add_task(verb, total=inputs * copies, done=0, inputs=inputs)

        def told(more_inputs: int, more_copies: int) -> None:
            nonlocal done
            done += more_inputs
            task_done = bar.tasks[task].completed + more_copies
            bar.update(task, completed=max(task_done, done * copies), done=done)

        yield told


@contextmanager
def training_bar() -> Iterator[Callable[[TrainingProgress], None]]:
    """A bar over training steps with the epoch's loss and accuracy."""
    with _bar(
        "epoch {task.fields[epoch]}", "loss {task.fields[loss]:.4f}", "accuracy {task.fields[accuracy]:.2%}"
    ) as bar:
        task = bar.add_task("training", total=None, epoch=0, loss=float("nan"), accuracy=0.0)

        def told(now: TrainingProgress) -> None:
            facts = {"epoch": now.epoch, "loss": now.loss, "accuracy": now.accuracy}
            bar.update(task, completed=now.step, total=now.steps, **facts)  # type: ignore[arg-type]

        yield told


@contextmanager
def download_bar(name: str) -> Iterator[Callable[[int, int | None], None]]:
    """A bar over bytes."""
    from rich.filesize import decimal

    with _bar("{task.fields[size]}") as bar:
        task = bar.add_task(name, total=None, size="")
        yield lambda done, total: bar.update(task, completed=done, total=total, size=decimal(done))
