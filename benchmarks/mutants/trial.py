"""A trial: the tests of a file, run in a process of their own with one mutant in the place of the code.

pytest collects the tests once. For each mutant the process forks; the child gives the one function that differs its
other code, runs the tests up to the first that fails, and ends. Nothing is copied, imported or collected again. The
test that noticed a mutant is the first to be run with the next, which is most often a change of the same function.
"""

from __future__ import annotations

import gc
import mmap
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from enum import Enum
from functools import cached_property
from importlib import import_module
from types import CodeType, FunctionType
from typing import Any

import pytest

from benchmarks.mutants.mutations import Mutant

MOST_SECONDS = 600  # of a test's work with nothing changed
MOST_MEMORY = 24 << 30  # of address space: a mutant that asks for more has failed
OPTIONS = "-o", "addopts=", "-m", "not slow", "--noconftest", "-p", "no:cacheprovider", "-p", "no:terminal"


class Outcome(Enum):
    """What became of a mutant: a test failed; it was stopped at the limit of its time; or all tests passed."""

    KILLED = "killed"
    TIMED_OUT = "timed out"
    SURVIVED = "survived"


OnProgress = Callable[[Mutant, Outcome], None]


def allowed(seconds: float) -> int:
    """How many seconds a test may work with a mutant, where it works for so many without: far more than a detour."""
    return 20 + int(10 * seconds)


def outcomes_of(
    mutants: Sequence[Mutant], tests: Sequence[str], jobs: int, on_progress: OnProgress
) -> list[tuple[Mutant, Outcome]]:
    """What these tests say of each mutant, reported as it is known; with the code as it is they have to pass.

    A mutant with which a test works for ten times as long as with the code as it is, and 20 seconds more, is stopped,
    and is counted by itself. It is the seconds of work that count, so that a busy machine makes no mutant look as if it
    were noticed.
    """
    runner = _Runner(mutants, jobs, on_progress)
    if pytest.main([*OPTIONS, *tests], plugins=[runner]) or not runner.ran:
        raise RuntimeError(f"{' '.join(tests)} cannot be collected, or do not pass with nothing changed")
    return runner.outcomes


class _Runner:
    """In the place of pytest's own loop over the tests: the loop over the mutants, for each of which all are run."""

    def __init__(self, mutants: Sequence[Mutant], jobs: int, on_progress: OnProgress) -> None:
        self.mutants, self.jobs, self.on_progress, self.ran = mutants, jobs, on_progress, False
        self.running: dict[int, tuple[Mutant, float, memoryview[float]]] = {}
        self.outcomes: list[tuple[Mutant, Outcome]] = []
        self.order: list[int] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Every mutant, so many at a time."""
        gc.freeze()  # shared with the children, which would otherwise copy what they look through
        if not session.items:
            return True
        self.order, self.seconds = [*range(len(session.items))], _shared(len(session.items))
        if os.waitpid(self._started(None, session, _shared(1)), 0)[1]:
            return True
        self.ran, self.patience = True, 60 * sum(map(allowed, self.seconds))
        try:
            for mutant in self.mutants:
                while len(self.running) >= self.jobs:
                    self._wait()
                failed = _shared(1)
                self.running[self._started(mutant, session, failed)] = mutant, time.monotonic(), failed
            while self.running:
                self._wait()
        finally:
            for pid in self.running:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        return True

    def _wait(self) -> None:
        """Notes what has ended, stops what only waits."""
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid in self.running:
            mutant, _, failed = self.running.pop(pid)
            self.order.sort(key=lambda place: place != failed[0] - 1)  # the one that failed first, the others as before
            self.outcomes.append((mutant, _outcome(status)))
            self.on_progress(*self.outcomes[-1])
            return
        for running, (_, since, _) in self.running.items():
            if time.monotonic() - since > self.patience:
                os.kill(running, signal.SIGKILL)
        time.sleep(0.002)

    def _started(self, mutant: Mutant | None, session: pytest.Session, failed: memoryview[float]) -> int:
        """The process that runs the tests: its exit status is 0 if they pass, each within the limit of its work.

        The number of the first that fails, from 1, goes to `failed`, which both processes share. With nothing changed,
        `seconds` are noted.
        """
        sys.stdout.flush()
        pid = os.fork()
        if pid:
            return pid
        try:
            os.nice(10)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
            if mutant is not None:
                change(mutant)
            for place, following in zip(self.order, [*self.order[1:], None], strict=True):
                began = time.process_time()
                limit = int(began) + (MOST_SECONDS if mutant is None else allowed(self.seconds[place]))
                resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
                after = None if following is None else session.items[following]
                session.config.hook.pytest_runtest_protocol(item=session.items[place], nextitem=after)
                if session.testsfailed:
                    failed[0] = place + 1
                    os._exit(1)
                if mutant is None:
                    self.seconds[place] = time.process_time() - began
            os._exit(0)
        finally:
            os._exit(1)


def _shared(count: int) -> memoryview[float]:
    """So many numbers that this process and those it starts see alike, all 0."""
    return memoryview(mmap.mmap(-1, 8 * count)).cast("d")


def _outcome(status: int) -> Outcome:
    """Of the status that a process ended with."""
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL):
        return Outcome.TIMED_OUT
    return Outcome.KILLED if status else Outcome.SURVIVED


def change(mutant: Mutant) -> None:
    """Gives the function that the mutant is of the mutant's code, wherever the function is already in use."""
    parts = mutant.function.split(".")
    found = _function(import_module(mutant.module), parts)
    code = compile(mutant.compilable, found.__code__.co_filename, "exec")
    for part in parts:
        code = next(one for one in code.co_consts if isinstance(one, CodeType) and one.co_name == part)
    found.__code__ = code
    for name, module in [*sys.modules.items()]:
        if name.split(".")[0] == mutant.module.split(".")[0]:
            for each in [*vars(module).values()]:
                if hasattr(each, "cache_clear"):
                    each.cache_clear()


def _function(holder: Any, parts: Sequence[str]) -> FunctionType:
    """The function of that name behind whatever wraps it: a property, a cache."""
    for part in parts:
        holder = vars(holder)[part]
    if isinstance(holder, property):
        holder = holder.fget
    if isinstance(holder, cached_property):
        holder = holder.func
    while hasattr(holder, "__wrapped__"):
        holder = holder.__wrapped__
    assert isinstance(holder, FunctionType)
    return holder
