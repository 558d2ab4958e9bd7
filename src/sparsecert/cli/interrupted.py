"""Ctrl-C and SIGTERM, which ends the jobs of clusters and containers, stop a command alike."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from types import FrameType

GRACE = 5  # seconds that a step may go on after a signal


class Terminated(KeyboardInterrupt):
    """SIGTERM; whatever cleans up after Ctrl-C does so after it, too."""


def interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """The handler of both signals."""
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Lets SIGTERM raise `Terminated`; only the main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def exit_code(stopped: BaseException) -> int:
    """128 and the number of the signal, as shells have it; Click wraps what it catches."""
    sent = signal.SIGTERM if isinstance(stopped.__cause__ or stopped, Terminated) else signal.SIGINT
    return 128 + sent


@contextmanager
def saying_kept(kept: Callable[[], str | None]) -> Iterator[None]:
    """Lets a stopped command say what `kept` then returns; an empty text: nothing was kept; None: nobody knows."""
    try:
        yield
    except KeyboardInterrupt as stopped:
        if (said := kept()) is not None:
            stopped.args = (*stopped.args, said)
        raise


def records_kept(out: str | Path | None, inputs: int, noun: str) -> str | None:
    """How many inputs are recorded in a file: its whole lines after the header."""
    if out is None or not Path(out).is_file():
        return None if out is None else ""
    with Path(out).open("rb") as lines:
        found = sum(line.endswith(b"\n") for line in lines) - 1
    return f"{found:,} of {inputs:,} {noun} are in {out}" if found > 0 else ""


def steps_kept(out: str | Path | None, steps: int | None) -> str | None:
    """How many training steps the checkpoint in a folder has, of all steps where known."""
    from sparsecert import modelfile
    from sparsecert.training.run import CHECKPOINT_NAME

    if out is None or not (file := Path(out) / CHECKPOINT_NAME).is_file():
        return None if out is None else ""
    of = "" if steps is None else f" of {steps:,}"
    return f"{modelfile.read_header(file)['step']:,}{of} steps are in {file}"


def last_words(stopped: BaseException) -> str:
    """What a stopped command says."""
    told = (stopped.__cause__ or stopped).args
    if any(told):
        return "; ".join(["stopped", *filter(None, told), "rerun the same command to resume"])
    return "stopped; nothing was kept" if told else "stopped"


@contextmanager
def ending_steps(stop: Exception, *, follows: bool = False) -> Iterator[Callable[[], None]]:
    """Yields what to call after each step: it raises `stop` once a signal has come, so that the state is saved first.

    The signal acts at once before the first step has ended, as there is nothing to save, and after GRACE seconds where
    the step takes longer; so does a second one. A process that `follows` another waits for it to end the steps.
    """
    sent: list[int] = []
    stepped = False

    def press(number: int, frame: FrameType | None) -> None:
        sent.append(number)
        if len(sent) > 1 or not (stepped or follows):
            interrupt(sent[0], frame)
        if hasattr(signal, "alarm") and not follows:
            before[signal.SIGALRM] = signal.signal(signal.SIGALRM, press)
            signal.alarm(GRACE)

    def ended() -> None:
        nonlocal stepped
        stepped = True
        if sent:
            _cancel_alarm()
            raise stop

    before = {number: signal.signal(number, press) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield ended
    except Exception as error:
        if error is stop or (follows and sent):  # the connection to a process that has stopped is lost
            interrupt(sent[0], None)
        raise
    finally:
        _cancel_alarm()
        for number, handler in before.items():
            signal.signal(number, handler)


def _cancel_alarm() -> None:
    if hasattr(signal, "alarm"):
        signal.alarm(0)
