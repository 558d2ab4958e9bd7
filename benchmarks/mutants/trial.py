"""A trial: the tests of a file, run in a process of their own with one mutant in the place of the module."""

from __future__ import annotations

import ast
import importlib
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType

from benchmarks.mutants.mutations import Mutant

MOST_MEMORY = 24 << 30  # of address space: a mutant that asks for more has failed
PREPARED = "pytest", "numpy", "torch", "mpmath", "scipy.stats", "scipy.optimize", "scipy.sparse", "scipy.special"
Target = tuple[str, Path, ast.Module]  # module, its file, and what is to be run in its place


@dataclass(frozen=True)
class Trial:
    """A mutant, or None for the code as it is, and the test files that have to notice."""

    mutant: Mutant | None
    module: str
    file: Path
    tests: tuple[str, ...]
    limit: float


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, tree: ast.Module) -> None:
        super().__init__(name, path)
        self.tree = tree

    def get_code(self, fullname: str) -> CodeType:
        return compile(ast.fix_missing_locations(self.tree), self.path, "exec")


class _Finder:
    """Finds one module, and gives the mutant for it."""

    def __init__(self, target: Target) -> None:
        self.name, self.file, self.tree = target

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != self.name:
            return None
        folders = [str(self.file.parent)] if self.file.name == "__init__.py" else None
        loader = _Loader(name, str(self.file), self.tree)
        return spec_from_file_location(name, self.file, loader=loader, submodule_search_locations=folders)


def prepare(package: str) -> None:
    """Imports what takes long, once, so that every trial begins with it; nothing of the package itself."""
    for name in PREPARED:
        importlib.import_module(name)
    import torch

    torch.set_num_threads(1)
    loaded = [name for name in sys.modules if name.split(".")[0] == package]
    if loaded:
        raise RuntimeError(f"{loaded} must not be imported before a mutant can take its place")


def run_all(trials: Sequence[Trial], jobs: int, root: Path) -> Iterator[tuple[Trial, bool, float]]:
    """Each trial with whether the tests passed and the seconds it took, in the order in which they end.

    One that has not ended at its limit is stopped, and counts as not passed.
    """
    waiting, running = list(reversed(trials)), dict[int, tuple[Trial, float]]()
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                trial = waiting.pop()
                running[_started(trial, root)] = trial, time.monotonic()
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid in running:
                trial, since = running.pop(pid)
                yield trial, status == 0, time.monotonic() - since
                continue
            for pid, (trial, since) in running.items():
                if time.monotonic() - since > trial.limit:
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
    finally:
        for pid in running:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _started(trial: Trial, root: Path) -> int:
    """The process that runs the tests: its exit status is 0 if they pass."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        status = _tested(trial, root)
    finally:
        os._exit(status)


def _tested(trial: Trial, root: Path) -> int:
    import pytest

    os.nice(10)
    os.chdir(root)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    if trial.mutant is not None:
        sys.meta_path.insert(0, _Finder((trial.module, trial.file, trial.mutant.tree)))
    options = ["-x", "--noconftest", "-p", "no:cacheprovider"]
    return int(pytest.main([*options, *trial.tests]) != 0)
