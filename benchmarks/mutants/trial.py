"""A trial: the tests of a file, run in a process of their own with one mutant in the place of the code.

pytest collects the tests once. For each mutant the process forks; the child gives the one function that differs its
other code, runs the tests up to the first that fails, and ends. Nothing is copied, imported or collected again.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib import import_module
from types import CodeType, FunctionType
from typing import Any

import pytest

from benchmarks.mutants.mutations import Mutant

MOST_SECONDS = 600
MOST_MEMORY = 24 << 30  # of address space: a mutant that asks for more has failed
Told = Callable[[Mutant, bool], None]
OPTIONS = "-o", "addopts=", "-m", "not slow", "--noconftest", "-p", "no:cacheprovider", "-p", "no:terminal"


def survivors_of(mutants: Sequence[Mutant], tests: Sequence[str], jobs: int, told: Told) -> list[Mutant]:
    """The mutants with which these tests pass; with the code as it is they have to. `told` is called for each mutant.

    One that works for several times as long as the code as it is, is stopped, and has not passed. It is the seconds of
    its own work that count, so that a busy machine makes no mutant look as if it were noticed.
    """
    runner = _Runner(mutants, jobs, told)
    if pytest.main([*OPTIONS, *tests], plugins=[runner]) or not runner.ran:
        raise RuntimeError(f"{' '.join(tests)} cannot be collected, or do not pass with nothing changed")
    return runner.survivors


class _Runner:
    """In the place of pytest's own loop over the tests: the loop over the mutants, for each of which all are run."""

    def __init__(self, mutants: Sequence[Mutant], jobs: int, told: Told) -> None:
        self.mutants, self.jobs, self.told, self.ran = mutants, jobs, told, False
        self.running: dict[int, tuple[Mutant, float]] = {}
        self.survivors: list[Mutant] = []
        self.limit = MOST_SECONDS

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Every mutant, so many at a time."""
        gc.freeze()  # shared with the children, which would otherwise copy what they look through
        if not session.items:
            return True
        _, status, used = os.wait4(_started(None, session, MOST_SECONDS), 0)
        if status:
            return True
        self.ran, self.limit = True, 5 + int(4 * (used.ru_utime + used.ru_stime))
        try:
            for mutant in self.mutants:
                while len(self.running) >= self.jobs:
                    self._wait()
                self.running[_started(mutant, session, self.limit)] = mutant, time.monotonic()
            while self.running:
                self._wait()
        finally:
            for pid in self.running:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        return True

    def _wait(self) -> None:
        """Notes what has ended, stops what has not in time."""
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid in self.running:
            mutant, _ = self.running.pop(pid)
            self.survivors += [] if status else [mutant]
            self.told(mutant, status == 0)
            return
        for running, (_, since) in self.running.items():
            if time.monotonic() - since > 60 * self.limit:  # one that only waits
                os.kill(running, signal.SIGKILL)
        time.sleep(0.005)


def _started(mutant: Mutant | None, session: pytest.Session, limit: int) -> int:
    """The process that runs the tests: its exit status is 0 if they pass within so many seconds of its own work."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    try:
        os.nice(10)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        if mutant is not None:
            change(mutant)
        for item, following in zip(session.items, [*session.items[1:], None], strict=True):
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.testsfailed:
                os._exit(1)
        os._exit(0)
    finally:
        os._exit(1)


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
