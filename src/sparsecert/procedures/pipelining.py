"""Work in steps, so that a device is busy with one group of inputs while the host thinks about another."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

Steps = Generator[None, None, T]  # yields when it has queued work on the device that it has to wait for; returns a T


def finish(work: Steps[T]) -> T:
    """What the work returns, all its steps taken one after the other."""
    while True:
        try:
            next(work)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]


def interleave(works: Iterable[Steps[T]], at_once: int) -> Iterator[T]:
    """The results as they come, with `at_once` works under way that take their steps in turn; begun in order.

    The order of steps is a function of the works alone, not of time.
    """
    waiting = iter(works)
    under_way: deque[Steps[T]] = deque()
    while True:
        while len(under_way) < at_once and (fresh := next(waiting, None)) is not None:
            under_way.append(fresh)
            try:
                next(fresh)
            except StopIteration as stop:
                under_way.pop()
                yield stop.value
        if not under_way:
            return
        work = under_way.popleft()
        try:
            next(work)
            under_way.append(work)
        except StopIteration as stop:
            yield stop.value
