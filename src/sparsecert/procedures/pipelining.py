"""Pipelining: the device works on one group of inputs while the host works on another."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

Steps = Generator[None, None, T]  # yields when it has queued work on the device and must wait for it


def finish(work: Steps[T]) -> T:
    """Runs all steps and returns the result."""
    while True:
        try:
            next(work)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]


def interleave(works: Iterable[Steps[T]], at_once: int) -> Iterator[T]:
    """The results as they come, with `at_once` generators in flight, round-robin; started in order.

    The order of steps depends on the generators alone, not on timing.
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
