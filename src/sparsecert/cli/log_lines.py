"""Progress as lines, where stderr is no terminal: a log file, a job of a cluster."""

from __future__ import annotations

import math
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import click

if TYPE_CHECKING:
    from rich.progress import TaskID

EVERY = 30.0  # seconds from line to line
SOON = 5.0  # until the line that says how long it will take
LOOK = 1.0  # between looks whether a line is due while nothing is reported
clock = time.monotonic

PERIODS = ("a second", 1), ("a minute", 60), ("an hour", 3_600)


class LogLines:
    """Prints how far a task is: as it starts, once it is known how long it will take, and every half minute.

    Stands in for `rich.progress.Progress` with one task; `text` is formatted with the task as rich does it. A task of
    less than half a minute prints its first line and its last. What was done before that does not count in the rate.
    `alike`: tasks of the same length, this one and those to follow. Without a noun nothing is counted but the time.
    """

    def __init__(self, text: str = "", *, noun: str = "", alike: int = 1) -> None:
        self._text, self._noun, self._alike = text, noun, alike
        self._started: float | None = None
        self._printing, self._stopped = threading.RLock(), threading.Event()

    def add_task(self, description: str, *, total: float | None, per: float = 1, **fields: Any) -> TaskID:
        """The task; `per` of what it completes make one of what the rate counts."""
        self.task = SimpleNamespace(description=description, completed=0.0, total=total, fields=fields)
        self._per, self._added = per, clock()
        self._next = self._added + EVERY
        threading.Thread(target=self._look, daemon=True).start()
        return cast("TaskID", 0)

    def _look(self) -> None:
        while not self._stopped.wait(LOOK):
            self.print_if_due()

    def start(self) -> None:
        """The first update starts the clock."""

    def stop(self) -> None:
        """Says how far it came, if that has not been said."""
        with self._printing:
            self._stopped.set()
            if self._started is not None and self._how_far() != self._said:
                self._print(self._how_far())

    def update(self, task: TaskID, *, completed: float, total: float | None = None, **fields: Any) -> None:
        """Takes what is done; prints a line if it is time for one."""
        with self._printing:
            now = clock()
            if self._started is None or completed != self.task.completed:
                self._advanced = now
            self.task.completed, self.task.total = completed, total or self.task.total
            self.task.fields |= fields
            if self._started is None:
                self._started, self._before, self._next = now, completed, now + SOON
                self._print(self._how_far())
            self.print_if_due()

    def print_if_due(self) -> None:
        """Prints a line if it is time for one, whether or not anything was done since the last."""
        with self._printing:
            now = clock()
            if now < self._next or self._stopped.is_set():
                return
            left = self._left(now)
            if self._started is None:
                yet = [f"no {self._noun} done yet"] if self._noun else []
                self._print(*yet, f"{duration(now - self._added)} so far")
            elif left is not None and max(left + self._following(), now - self._started) >= EVERY:
                self._print(self._how_far(), self._rate(), self._in_words(left))
            elif now - self._started >= EVERY:
                self._print(self._how_far(), f"{duration(now - self._started)} so far")
            else:
                return
            self._next = now + EVERY

    def _seconds_each(self) -> float | None:
        """The seconds for each that was completed, up to the last; None where it is not known."""
        if self._started is None or self.task.completed == self._before:
            return None
        each: float = (self._advanced - self._started) / (self.task.completed - self._before)
        return each

    def _following(self) -> float:
        """The seconds of the tasks to follow."""
        return (self._alike - 1) * (self.task.total or 0.0) * (self._seconds_each() or 0.0)

    def _left(self, now: float) -> float | None:
        """The seconds that are left at the rate so far; None where it is not known, or the time is up."""
        each = self._seconds_each()
        if each is None or self.task.total is None:
            return None
        left: float = (self.task.total - self.task.completed) * each - (now - self._advanced)
        return left if left > 0 else None

    def _in_words(self, left: float) -> str:
        if self._alike == 1:
            return f"about {duration(left)} left"
        in_all = duration(left + self._following())
        return f"about {duration(left)} left, {in_all} with the {self._alike - 1} to follow"

    def _print(self, how_far: str, *more: str) -> None:
        self._said = how_far
        click.echo(f"{self.task.description}: {', '.join((how_far, *more))}", err=True)

    def _how_far(self) -> str:
        return self._text.format(task=self.task)

    def _rate(self) -> str:
        """How much is done in a second, a minute or an hour: the first in which it is one at least."""
        each = self._per * (self._seconds_each() or math.inf)
        rates = [(seconds / each, name) for name, seconds in PERIODS]
        rate, name = next((rate for rate in rates if rate[0] >= 1), rates[-1])
        return f"{rate:,.0f} {self._noun} {name}" if rate >= 10 else f"{rate:.2g} {self._noun} {name}"


def duration(seconds: float) -> str:
    """In words, to two digits or so: 40 s, 12 min, 3 h 20 min, 2 d 5 h."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 24 else f"{hours // 24} d {hours % 24} h"
