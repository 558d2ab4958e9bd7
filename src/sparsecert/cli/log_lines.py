"""Progress as lines, where stderr is no terminal: a log file, a job of a cluster."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import click

if TYPE_CHECKING:
    from rich.progress import TaskID

EVERY = 30.0  # seconds from line to line
SOON = 5.0  # until the first line, which says how long it will take
clock = time.monotonic

PERIODS = ("a second", 1), ("a minute", 60), ("an hour", 3_600)


class LogLines:
    """Prints how far a task is: as it starts, once it is known how long it will take, and every half minute.

    Stands in for `rich.progress.Progress` with one task; `texts` are formatted with the task as rich does it. A task
    of less than half a minute prints its first line and its last. What was done before that does not count in the rate.
    """

    def __init__(self, *texts: str, noun: str) -> None:
        self._texts, self._noun = texts, noun
        self._started: float | None = None

    def add_task(self, description: str, *, total: float | None, per: float = 1, **fields: Any) -> TaskID:
        """The task; `per` of what it completes make one of what the rate counts."""
        self.task = SimpleNamespace(description=description, completed=0.0, total=total, fields=fields)
        self._per = per
        return cast("TaskID", 0)

    def start(self) -> None:
        """The first update starts the clock."""

    def stop(self) -> None:
        """Says how far it came, if that has not been said."""
        if self._started is not None and self._how_far() != self._said:
            self._print()

    def update(self, task: TaskID, *, completed: float, total: float | None = None, **fields: Any) -> None:
        """Takes what is done; prints a line if it is time for one."""
        self.task.completed, self.task.total = completed, total or self.task.total
        self.task.fields |= fields
        now = clock()
        if self._started is None:
            self._started, self._before, self._next = now, completed, now + SOON
            self._print()
        if now < self._next:
            return
        left = self._left(now)
        taken = now - self._started
        if left is not None and max(left, taken) >= EVERY:
            self._print(self._rate((completed - self._before) / self._per, taken), f"about {duration(left)} left")
        elif taken >= EVERY:
            self._print(f"{duration(taken)} so far")
        else:
            return
        self._next = now + EVERY

    def _left(self, now: float) -> float | None:
        """The seconds that are left at the rate so far; None where it is not known."""
        done = self.task.completed - self._before
        if not done or self.task.total is None or self._started is None:
            return None
        left: float = (self.task.total - self.task.completed) * (now - self._started) / done
        return left

    def _print(self, *more: str) -> None:
        self._said = self._how_far()
        click.echo(f"{self.task.description}: {', '.join((self._said, *more))}", err=True)

    def _how_far(self) -> str:
        return " ".join(text.format(task=self.task) for text in self._texts)

    def _rate(self, done: float, taken: float) -> str:
        """How much is done in a second, a minute or an hour: the first in which it is one at least."""
        rates = [(done / taken * seconds, name) for name, seconds in PERIODS]
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
