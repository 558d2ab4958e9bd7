"""Progress on stderr: bars on a terminal, lines elsewhere."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING, Any

from sparsecert.cli.interrupted import interrupt
from sparsecert.cli.log_lines import LogLines

if TYPE_CHECKING:
    from types import FrameType

    from rich.progress import Progress

    from sparsecert.progress import OnProgress
    from sparsecert.records import AttackRecord


def _bar(*middle: str, noun: str) -> Progress | LogLines:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    if not console.is_terminal:
        return LogLines(*middle, noun=noun)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        *(TextColumn(text) for text in middle),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
    )


@contextmanager
def _stopping(bar: Progress | LogLines) -> Iterator[None]:
    """Stops the bar, if it was started: bars start with the first progress, so that an early error stands alone."""
    try:
        yield
    finally:
        if isinstance(bar, LogLines) or bar.live.is_started:
            bar.stop()


def mean_samples(done: int, copies: int) -> str:
    """The mean number of ablated copies per input."""
    return f" {copies / done:,.0f} samples each" if done else ""


def evaluations(done: int, copies: int) -> str:
    """Images are attacked in groups; the number of evaluations shows progress within one."""
    return f", {copies:,} evaluations"


class FoundSoFar:
    """The note of an attack: the median of what it found in this run; evaluations, until something is recorded."""

    def __init__(self, units: str) -> None:
        self.units, self.recorded, self.distances = units, 0, list[int]()

    def add(self, records: Sequence[AttackRecord]) -> None:
        """Takes records as they are made; inputs that are misclassified as they are do not count."""
        self.recorded += len(records)
        self.distances += [record.distance for record in records if record.distance]

    def __call__(self, done: int, copies: int) -> str:
        if not self.recorded:
            return evaluations(done, copies)
        return f", median {median(self.distances):g} {self.units}" if self.distances else ", none fooled"


@contextmanager
def inputs_bar(
    verb: str,
    inputs: int,
    copies: int | None,
    noun: str = "inputs",
    note: Callable[[int, int], str] = mean_samples,
) -> Iterator[OnProgress]:
    """A bar over `inputs`; yields its callback (inputs done, copies done).

    With `copies` per input known, it advances with every batch. With None (sequential sampling, attacks) it advances
    with every input and shows a `note` on the inputs and copies computed in this run.
    """
    bar = _bar(f"{{task.fields[done]}} of {{task.fields[inputs]}} {noun}{{task.fields[note]}}", noun=noun)
    task = bar.add_task(verb, total=inputs * (copies or 1), per=copies or 1, done=0, inputs=inputs, note="")
    done = computed = taken = completed = 0

    def on_progress(more_inputs: int, more_copies: int) -> None:
        nonlocal done, computed, taken, completed
        bar.start()
        done, taken = done + more_inputs, taken + more_copies
        computed += more_inputs if taken else 0  # inputs recorded before took no copies in this run
        completed = done if copies is None else max(completed + more_copies, done * copies)
        bar.update(task, completed=completed, done=done, note=note(computed, taken) if copies is None else "")

    with _stopping(bar):
        yield on_progress


@contextmanager
def training_bar(name: str = "training") -> Iterator[OnProgress]:
    """A bar over training steps with the epoch's loss and accuracy.

    Ctrl-C or SIGTERM stops between two steps; a second one stops at once.
    """
    from sparsecert.training import Stop

    bar = _bar(
        "epoch {task.fields[epoch]}",
        "loss {task.fields[loss]:.4f}",
        "accuracy {task.fields[accuracy]:.2%}",
        noun="steps",
    )
    task = bar.add_task(name, total=None, epoch=0, loss=float("nan"), accuracy=0.0)
    pressed: list[int] = []

    def press(number: int, frame: FrameType | None) -> None:
        pressed.append(number)
        if len(pressed) > 1:
            interrupt(number, frame)

    def on_progress(done: int, steps: int, **metrics: Any) -> None:
        bar.start()
        bar.update(task, completed=done, total=steps, **metrics)
        if pressed:
            raise Stop

    before = {number: signal.signal(number, press) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with _stopping(bar):
            yield on_progress
    except Stop:
        interrupt(pressed[0], None)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def files_bar(verb: str) -> Iterator[OnProgress]:
    """A bar over files; yields its callback (files done, total)."""
    bar = _bar("{task.fields[done]:,} of {task.fields[files]:,} files", noun="files")
    task = bar.add_task(verb, total=None, done=0, files=0)

    def on_progress(done: int, files: int) -> None:
        bar.start()
        bar.update(task, completed=done, total=files, done=done, files=files)

    with _stopping(bar):
        yield on_progress


@contextmanager
def download_bar(name: str) -> Iterator[OnProgress]:
    """A bar over bytes; yields its callback (bytes done, total)."""
    from rich.filesize import decimal

    bar = _bar("{task.fields[size]}", noun="MB")
    task = bar.add_task(name, total=None, per=1e6, size="")

    def on_progress(done: int, total: int) -> None:
        bar.start()
        bar.update(task, completed=done, total=total or None, size=decimal(done))

    with _stopping(bar):
        yield on_progress
