"""`sparsecert ARGUMENTS` for tests: in this process, which saves importing torch again, or in one of its own."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import warnings
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
    out, err, here = io.StringIO(), io.StringIO(), Path.cwd()
    with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("default")  # a user sees warnings, which are errors in tests
        os.chdir(cwd or here)
        try:
            with pytest.raises(SystemExit) as end:
                main([str(argument) for argument in arguments])
        finally:
            os.chdir(here)
    return Done(command(*arguments), int(end.value.code or 0), out.getvalue(), err.getvalue())


def sparsecert_process(*arguments: object, cwd: Path | None = None) -> Done:
    """The same in a process of its own, as a person starts it."""
    return subprocess.run(command(*arguments), capture_output=True, text=True, check=False, cwd=cwd)
