"""The command `sparsecert serve` as a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def running(*arguments: object, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and its address, once it listens; ended at last, whatever happens."""
    command = [sys.executable, "-m", "sparsecert", "serve", *map(str, arguments), "--port", "0", "--device", "cpu"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})
    assert process.stderr is not None
    try:
        address = None
        for line in process.stderr:
            if found := re.search(r"serving on (http://\S+)", line):
                address = found[1]
                break
        assert address is not None, f"it ended with {process.wait()}"
        yield process, address
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
