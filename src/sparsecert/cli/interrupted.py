"""Ctrl-C and SIGTERM, which ends the jobs of clusters and containers, stop a command alike."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from types import FrameType


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
