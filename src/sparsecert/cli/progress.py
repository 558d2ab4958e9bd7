"""Progress on stderr: bars on a terminal, lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING, Any

from sparsecert.cli.interrupted import ending_steps, records_kept, saying_kept, steps_kept
from sparsecert.cli.log_lines import LogLines
from sparsecert.progress import ignore

if TYPE_CHECKING:
    from pathlib import Path

    from rich.progress import Progress

    from sparsecert.progress import OnProgress
    from sparsecert.records import AttackRecord

LEAST_SHARE = 0.02  # of a group's search, until which its time is not estimated


def _bar(middle: str, noun: str, line: str | None = None, alike: int = 1) -> Progress | LogLines:
    """A bar with the text `middle`; elsewhere than on a terminal, lines with the text `line`, which may be longer."""
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
        return LogLines(line or middle, noun=noun, alike=alike)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn(middle),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        speed_estimate_period=300,  # seconds: a step of an attack may take minutes
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


class FoundSoFar:
    """The note of an attack: the median of what it recorded in this run; before, what it has found so far.

    Inputs that are misclassified as they are do not count. `begun`: the work on the group that is attacked, in inputs.
    """

    def __init__(self, units: str) -> None:
        self.units, self.recorded, self.distances = units, 0, list[int]()
        self.so_far, self.begun = list[int](), 0.0

    def in_group(self, share: float, distances: Sequence[int]) -> None:
        """Takes how much of the search in a group is done, and for each of its inputs what was found so far."""
        self.begun = share * len(distances) if share >= LEAST_SHARE else 0.0
        self.so_far = [distance for distance in distances if distance > 0]

    def add(self, records: Sequence[AttackRecord]) -> None:
        """Takes records as they are made."""
        self.recorded, self.begun = self.recorded + len(records), 0.0
        self.distances += [record.distance for record in records if record.distance]

    def __call__(self, done: int, copies: int) -> str:
        if self.recorded:
            return f", median {median(self.distances):g} {self.units}" if self.distances else ", none fooled"
        asked = f", {copies:,} evaluations"
        if not self.so_far:
            return asked
        return f"{asked}, {len(self.so_far)} fooled so far by a median of {median(self.so_far):g} {self.units}"


@contextmanager
def inputs_bar(
    verb: str,
    inputs: int,
    copies: int | None,
    noun: str = "inputs",
    note: Callable[[int, int], str] = mean_samples,
    out: str | Path | None = None,
    begun: Callable[[], float] = lambda: 0.0,
) -> Iterator[OnProgress]:
    """A bar over `inputs`; yields its callback (inputs done, copies done).

    With `copies` per input known, it advances with every batch. With None (sequential sampling, attacks) it advances
    with every input, and with what is `begun` of those to come, and shows a `note` on the inputs and copies computed in
    this run. If it is stopped, the command says how many records are in the file `out`.
    """
    bar = _bar(f"{{task.fields[done]}} of {{task.fields[inputs]}} {noun}{{task.fields[note]}}", noun)
    task = bar.add_task(verb, total=inputs * (copies or 1), per=copies or 1, done=0, inputs=inputs, note="")
    done = computed = taken = 0
    completed = 0.0

    def on_progress(more_inputs: int, more_copies: int) -> None:
        nonlocal done, computed, taken, completed
        bar.start()
        done, taken = done + more_inputs, taken + more_copies
        computed += more_inputs if taken else 0  # inputs recorded before took no copies in this run
        completed = min(done + begun(), inputs) if copies is None else max(completed + more_copies, done * copies)
        bar.update(task, completed=completed, done=done, note=note(computed, taken) if copies is None else "")

    with saying_kept(lambda: records_kept(out, inputs, noun)), _stopping(bar):
        yield on_progress


@contextmanager
def attack_bar(
    verb: str, inputs: int, units: str, noun: str = "images", out: str | Path | None = None
) -> Iterator[dict[str, Any]]:
    """A bar over inputs under attack; yields the callbacks of `attack_dataset`."""
    found = FoundSoFar(units)
    with inputs_bar(verb, inputs, None, noun, found, out, lambda: found.begun) as on_progress:
        yield {"on_progress": on_progress, "on_search": found.in_group, "on_records": found.add}


@contextmanager
def training_bar(
    name: str = "training", out: str | Path | None = None, *, alike: int = 1, follows: bool = False
) -> Iterator[OnProgress]:
    """A bar over training steps with the epoch, its loss and accuracy, as far as they are given.

    Ctrl-C or SIGTERM stops between two steps (`ending_steps`), and the command says which checkpoint is in the folder
    `out`. `alike`: runs of the same length, this one and those to follow. A process that `follows` another has no bar.
    """
    from sparsecert.training import Stop

    if follows:
        with ending_steps(Stop(), follows=True):
            yield ignore
        return
    bar = _bar("{task.fields[short]}", "steps", "{task.fields[whole]}", alike)
    task = bar.add_task(name, total=None, short="", whole="")
    total: int | None = None
    with saying_kept(lambda: steps_kept(out, total)), ending_steps(Stop()) as ended:

        def on_progress(
            done: int, steps: int, loss: float, epoch: int = 0, epochs: int = 0, accuracy: float | None = None
        ) -> None:
            nonlocal total
            total = steps
            found = [f"loss {loss:.4f}", *([] if accuracy is None else [f"accuracy {accuracy:.2%}"])]
            short = [*([f"epoch {epoch}/{epochs}"] if epochs else []), *found]
            whole = [*([f"epoch {epoch} of {epochs}"] if epochs else []), f"{done:,} of {steps:,} steps", *found]
            bar.start()
            bar.update(task, completed=done, total=steps, short=" ".join(short), whole=", ".join(whole))
            ended()

        with _stopping(bar):
            yield on_progress


@contextmanager
def waiting(verb: str) -> Iterator[None]:
    """Says each half minute how long work takes that cannot say how far it is; if it is stopped, nothing is kept."""
    lines = LogLines()
    lines.add_task(verb, total=None)
    with saying_kept(lambda: ""), _stopping(lines):
        yield


@contextmanager
def files_bar(verb: str) -> Iterator[OnProgress]:
    """A bar over files; yields its callback (files done, total)."""
    bar = _bar("{task.fields[done]:,} of {task.fields[files]:,} files", "files")
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

    bar = _bar("{task.fields[size]}", "MB")
    task = bar.add_task(name, total=None, per=1e6, size="")

    def on_progress(done: int, total: int) -> None:
        bar.start()
        bar.update(task, completed=done, total=total or None, size=decimal(done))

    with _stopping(bar):
        yield on_progress
