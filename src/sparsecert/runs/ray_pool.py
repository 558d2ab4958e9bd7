"""A fault-tolerant pool of Ray actors that compute groups of inputs."""

from __future__ import annotations

import contextlib
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sparsecert.errors import InputError
from sparsecert.runs.connection import RESUME_HINT, describe_resources
from sparsecert.runs.worker import PackedGroup, Worker, WorkerInfo, WorkerJob, WorkerResult

IN_FLIGHT = 2  # calls per worker: one that it computes and one that waits, so that it is never idle
DEATHS = 4  # of workers over one task, or in a row at startup, before giving up
PATIENCE = 30, 600  # seconds without any worker before a warning, and before giving up


@dataclass
class Task:
    """Groups of inputs computed by one call.

    When a worker dies with two calls pending, either may be the cause. From then on both are `suspect`: each is the
    only call of its worker, so that `deaths` counts only the workers that died over it.
    """

    groups: list[list[int]]
    suspect: bool = False
    deaths: int = 0

    def __str__(self) -> str:
        first, last = self.groups[0][0], self.groups[-1][-1]
        return f"input {first}" if first == last else f"inputs {first} to {last}"


@dataclass(eq=False)
class PoolWorker:
    """An actor and its pending calls, in the order of their answers."""

    actor: Any
    calls: deque[tuple[Any, Task | None]] = field(default_factory=deque)  # reference and task; None: `begin`
    ready: bool = False

    def accepts_call(self) -> bool:
        """Whether another call may be queued."""
        return self.ready and len(self.calls) < IN_FLIGHT and not any(task and task.suspect for _, task in self.calls)


class RayPool:
    """`size` workers, each with the CPUs and GPUs that it needs; leaving the `with` block ends them all.

    A worker that dies is replaced, wherever the cluster has room, and its pending calls are computed again: losing a
    machine costs time, not results. Inputs over which worker after worker dies end the run.
    """

    def __init__(self, ray: Any, need: dict[str, float], size: int, job: WorkerJob) -> None:
        self._ray, self._need, self._job = ray, need, ray.put(job)
        options = {"num_cpus": need.get("CPU", 0), "num_gpus": need.get("GPU", 0)}
        self._actors = ray.remote(Worker).options(**options, max_restarts=0, max_task_retries=0)
        self._workers = [self._start_worker() for _ in range(size)]
        self._failed_starts = 0
        self._waiting: deque[list[int]] = deque()
        self._suspects: deque[Task] = deque()  # to be computed again
        self._reported = set[str]()

    def __enter__(self) -> RayPool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            self._end(worker)

    def first(self) -> WorkerInfo:
        """Waits for the first worker to be ready."""
        while True:
            result = self._next()
            if isinstance(result, WorkerInfo):
                return result

    def answers(
        self,
        groups: list[list[int]],
        rows: int,
        most: int,
        pack: Callable[[list[int]], PackedGroup],
        check: Callable[[WorkerInfo], None],
    ) -> Iterator[WorkerResult]:
        """Yields the workers' results as they arrive; a call has up to `most` groups, fewer towards the end.

        `pack` loads a group just before it is sent; `check` refuses a worker that does not fit the run.
        """
        self._waiting.extend(groups)
        while self._submit(rows, most, pack):
            result = self._next()
            if isinstance(result, WorkerInfo):
                check(result)
            elif result is not None:
                yield result

    def _start_worker(self) -> PoolWorker:
        worker = PoolWorker(self._actors.remote())
        worker.calls.append((worker.actor.begin.remote(self._job), None))
        return worker

    def _end(self, worker: PoolWorker) -> None:
        with contextlib.suppress(self._ray.exceptions.RayError, RuntimeError):  # worker or cluster may be gone
            self._ray.kill(worker.actor)

    def _submit(self, rows: int, most: int, pack: Callable[[list[int]], PackedGroup]) -> bool:
        """Submits a first task to every worker, then a second; whether anything is left to wait for."""
        for calls in range(IN_FLIGHT):
            for worker in self._workers:
                if worker.accepts_call() and len(worker.calls) == calls and (task := self._task(most, calls == 0)):
                    packed = [pack(group) for group in task.groups]
                    worker.calls.append((worker.actor.compute.remote(packed, rows), task))
        under_way = any(task is not None for worker in self._workers for _, task in worker.calls)
        return bool(under_way or self._waiting or self._suspects)

    def _task(self, most: int, alone: bool) -> Task | None:
        """The next task for a worker, which has no other if `alone`: only then a suspect."""
        if alone and self._suspects:
            return self._suspects.popleft()
        share = len(self._waiting) // (IN_FLIGHT * len(self._workers))
        groups = [self._waiting.popleft() for _ in range(min(len(self._waiting), max(1, min(most, share))))]
        return Task(groups) if groups else None

    def _next(self) -> WorkerInfo | WorkerResult | None:
        """The next result of any worker; None if the worker died instead."""
        oldest = {worker.calls[0][0]: worker for worker in self._workers if worker.calls}
        reference = self._wait(list(oldest))
        worker = oldest[reference]
        try:
            result: WorkerInfo | WorkerResult = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise _to_input_error(error, worker.calls[0][1]) from error
        except self._ray.exceptions.RayError as error:
            self._replace(worker, _last_line(str(error)))
            return None
        worker.calls.popleft()
        if isinstance(result, WorkerInfo):
            worker.ready, self._failed_starts = True, 0
        for text in result.warnings:
            if text not in self._reported:  # every worker notices what is wrong with the model
                warnings.warn(text, stacklevel=3)
        self._reported.update(result.warnings)
        return result

    def _wait(self, references: list[Any]) -> Any:
        """The first of these calls to finish, or whose worker died."""
        if any(worker.ready for worker in self._workers):
            return self._ray.wait(references)[0][0]
        warn_after, give_up_after = PATIENCE
        each = describe_resources(self._need)
        ready, _ = self._ray.wait(references, timeout=warn_after)
        if not ready:
            warnings.warn(f"no worker has started: the cluster has no room yet for one of {each}", stacklevel=5)
            ready, _ = self._ray.wait(references, timeout=give_up_after - warn_after)
        if not ready:
            raise InputError(
                f"no worker of {each} started in {give_up_after} seconds; ask for less or wait for room; {RESUME_HINT}"
            )
        return ready[0]

    def _replace(self, worker: PoolWorker, reason: str) -> None:
        """Replaces a worker that died, and queues its tasks again."""
        self._end(worker)  # it may only be unreachable, and must not go on
        tasks = [task for _, task in worker.calls if task is not None]
        self._blame(tasks, reason)
        for task in tasks:
            task.suspect = True
        self._suspects.extend(tasks)
        self._workers[self._workers.index(worker)] = self._start_worker()

    def _blame(self, tasks: list[Task], reason: str) -> None:
        """Warns which inputs a worker died over; gives up after too many deaths."""
        if not tasks:
            self._failed_starts += 1
            if self._failed_starts == DEATHS:
                raise InputError(f"{DEATHS} workers in a row died as they started: {reason}; {RESUME_HINT}")
            return
        if len(tasks) == 1:
            tasks[0].deaths += 1
            if tasks[0].deaths == DEATHS:
                raise InputError(f"{DEATHS} workers died over {tasks[0]}: {reason}; try fewer rows; {RESUME_HINT}")
        over = " or ".join(map(str, tasks))
        warnings.warn(f"a worker died over {over}; another computes them again", stacklevel=5)


def _to_input_error(error: Any, task: Task | None) -> InputError:
    """A worker's exception as the one line that the user sees."""
    cause = error.cause
    if isinstance(cause, InputError):
        return InputError(str(cause))
    doing = "starting" if task is None else f"computing {task}"
    return InputError(f"a worker failed {doing}: {type(cause).__name__}: {_last_line(str(cause))}; {RESUME_HINT}")


def _last_line(text: str) -> str:
    """The last line, which names the cause in Ray's messages, shortened."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no reason was given"
