"""`sparsecert ARGUMENTS` for tests: in this process, which saves importing torch again, or in one of its own."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from sparsecert.cli import main

Done = subprocess.CompletedProcess[str]


def command(*arguments: object) -> list[str]:
    """What starts it as a process."""
    return [sys.executable, "-m", "sparsecert", *map(str, arguments)]


def sparsecert(*arguments: object, cwd: Path | None = None) -> Done:
    """Its exit code and what it printed, run in this process."""
    return in_process(main, command(*arguments), 3, cwd)


def exit_code(*arguments: object) -> int:
    """Its exit code alone, run in this process; what it prints is left to pytest's `capsys`."""
    with pytest.raises(SystemExit) as end:
        main([*map(str, arguments)])
    return int(end.value.code or 0)


def study(*arguments: object) -> Done:
    """The same of `python -m studies.levine_feizi_2020 ARGUMENTS`, on the CPU and 120 columns wide."""
    from sparsecert.cli import run_command
    from studies.levine_feizi_2020.command import NAME
    from studies.levine_feizi_2020.command import command as reproduce

    words = [*NAME.split(), *map(str, arguments), "--device", "cpu"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("COLUMNS", "120")
        return in_process(lambda given: run_command(reproduce, NAME, given), words, 3)


def in_process(run: Callable[[Sequence[str]], object], words: list[str], first: int, cwd: Path | None = None) -> Done:
    """Runs a command whose arguments are the words from `first` on."""
    out, err, here = io.StringIO(), io.StringIO(), Path.cwd()
    with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("default")  # a user sees warnings, which are errors in tests
        os.chdir(cwd or here)
        try:
            with pytest.raises(SystemExit) as end:
                run(words[first:])
        finally:
            os.chdir(here)
    return Done(words, int(end.value.code or 0), out.getvalue(), err.getvalue())


def sparsecert_process(*arguments: object, cwd: Path | None = None) -> Done:
    """The same in a process of its own, as a person starts it."""
    return subprocess.run(command(*arguments), capture_output=True, text=True, check=False, cwd=cwd)
