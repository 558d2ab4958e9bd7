"""Worker processes that can be killed at any moment.

They are started as programs, not by `multiprocessing`: nothing is forked, so this process may hold a GPU and threads,
and scripts need no `if __name__ == "__main__"`. A worker imports no torch, keeps no state between calls, and ends when
this process does, for whatever reason.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from io import BufferedReader
from queue import SimpleQueue
from types import TracebackType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sparsecert.errors import InputError, check_int

MAX_WORKERS = 16
PIPE_BYTES = 1 << 20  # what Linux grants anyone: fewer reads, each of which needs the GIL
PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from sparsecert.datasets.workers import serve; serve()"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def default_workers(sharing: int = 1) -> int:
    """The number of available CPUs, at most 16, divided by the processes that share them."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(MAX_WORKERS, cpus // sharing))


class Workers:
    """`count` processes, each computing one call at a time. Leaving the block kills them, busy or not.

    A call is a module-level function; its arguments and result are JSON values. An InputError is raised here with its
    message, any other exception as a RuntimeError with the worker's traceback.
    """

    def __init__(self, count: int) -> None:
        self.count = check_int("workers", count, 1, 1_000)
        self._workers: list[_Worker] = []
        self._idle: SimpleQueue[_Worker] = SimpleQueue()

    def __enter__(self) -> Workers:
        self._threads = ThreadPoolExecutor(self.count, thread_name_prefix="sparsecert-worker")
        try:
            for _ in range(self.count):
                self._workers.append(_Worker())
                self._idle.put(self._workers[-1])
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def submit(
        self, function: Callable[..., Any], *arguments: Any, into: NDArray[np.uint8] | None = None
    ) -> Future[Any]:
        """Calls function(*arguments) in a worker; with `into`, the returned array's bytes are received there."""
        return self._threads.submit(self._call, function, arguments, into)

    def _call(self, function: Callable[..., Any], arguments: tuple[Any, ...], into: NDArray[np.uint8] | None) -> Any:
        worker = self._idle.get()
        try:
            return worker.call(function, arguments, into)
        finally:
            self._idle.put(worker)

    def _end(self) -> None:
        for worker in self._workers:
            worker.process.kill()
        self._threads.shutdown(cancel_futures=True)
        for worker in self._workers:
            worker.close()
        self._workers.clear()


class _Worker:
    """One process: calls go to its stdin, results come from its stdout."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", PROGRAM, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **ONE_THREAD},
            start_new_session=True,  # Ctrl-C goes to this process, which then ends its workers
        )
        self._answers = cast(BufferedReader, self.process.stdout)
        with contextlib.suppress(ImportError, AttributeError, OSError):  # elsewhere pipes keep their size
            import fcntl

            fcntl.fcntl(self._answers, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...], into: NDArray[np.uint8] | None) -> Any:
        assert self.process.stdin is not None
        try:
            call = function.__module__, function.__qualname__, arguments, into is not None
            self.process.stdin.write(json.dumps(call).encode() + b"\n")
            self.process.stdin.flush()
            answer = self._answers.readline()
            if not answer.endswith(b"\n"):
                raise EOFError
            kind, value = json.loads(answer)
            if kind == "bytes" and into is not None:
                if value != into.nbytes:
                    raise RuntimeError(f"a worker answered with {value} bytes, {into.nbytes} were expected")
                if self._answers.readinto(into.reshape(-1).data) != value:
                    raise EOFError
                return into
        except (EOFError, OSError) as error:
            reason = _exit_reason(self.process.wait())
            raise InputError(
                f"a decoding process ended with {reason}; if memory is short, use fewer workers"
            ) from error
        if kind == "refused":
            raise InputError(value)
        if kind == "failed":
            raise RuntimeError(f"a decoding process failed:\n{value}")
        return value

    def close(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):  # nobody reads what is still buffered
            self.process.stdin.close()
        self._answers.close()
        self.process.wait()


def serve() -> None:
    """The worker's loop: answers calls from stdin until it closes."""
    calls, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # prints must not mix with answers
    with contextlib.suppress(BrokenPipeError):
        for line in calls:
            module, name, arguments, raw = json.loads(line)
            kind, value = _call(getattr(import_module(module), name), arguments)
            raw = raw and kind == "value"
            answer = ("bytes", value.nbytes) if raw else (kind, value)
            answers.write(json.dumps(answer).encode() + b"\n")
            if raw:
                answers.write(value.data)
            answers.flush()


def _call(function: Callable[..., Any], arguments: list[Any]) -> tuple[str, Any]:
    try:
        return "value", function(*arguments)
    except InputError as error:
        return "refused", str(error)
    except Exception:
        return "failed", traceback.format_exc()


def _exit_reason(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
