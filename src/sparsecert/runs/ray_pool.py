"""Workers of a Ray cluster that compute groups of inputs between them, whatever happens to some of them."""

from __future__ import annotations

import contextlib
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sparsecert.errors import InputError
from sparsecert.runs.connection import KEPT, described
from sparsecert.runs.worker import Answer, Packed, Ready, Worker, WorkerJob

IN_FLIGHT = 2  # calls at a worker: one that it computes and one that waits, so that it is never idle
DEATHS = 4  # of workers over one task, or in a row at their start, before the run is given up
PATIENCE = 30, 600  # seconds without any worker before that is said, and before the run is given up


@dataclass
class Task:
    """Groups of inputs that are computed by one call.

    A worker may die with two calls unanswered, and then either may be to blame. From then on they are `suspect`, each
    is the only call of its worker, and `deaths` counts the workers that died over it for certain.
    """

    groups: list[list[int]]
    suspect: bool = False
    deaths: int = 0

    def __str__(self) -> str:
        first, last = self.groups[0][0], self.groups[-1][-1]
        return f"input {first}" if first == last else f"inputs {first} to {last}"


@dataclass(eq=False)
class Member:
    """An actor of the cluster, and its calls that are not answered yet, in the order in which it answers them."""

    actor: Any
    calls: deque[tuple[Any, Task | None]] = field(default_factory=deque)  # reference and task; None: the call to begin
    ready: bool = False

    def takes_another(self) -> bool:
        """Whether a call may wait behind those it has."""
        return self.ready and len(self.calls) < IN_FLIGHT and not any(task and task.suspect for _, task in self.calls)


class RayPool:
    """`size` workers, each with the CPUs and GPUs that it needs; leaving the `with` block ends them all.

    A worker that dies is replaced, and what it had not answered is computed again. The replacement starts wherever the
    cluster has room, so a machine that is lost costs time, not results. Inputs over which worker after worker dies end
    the run.
    """

    def __init__(self, ray: Any, need: dict[str, float], size: int, job: WorkerJob) -> None:
        self._ray, self._need, self._job = ray, need, ray.put(job)
        options = {"num_cpus": need.get("CPU", 0), "num_gpus": need.get("GPU", 0)}
        self._actors = ray.remote(Worker).options(**options, max_restarts=0, max_task_retries=0)
        self._members = [self._hired() for _ in range(size)]
        self._failed_starts = 0
        self._waiting: deque[list[int]] = deque()
        self._suspects: deque[Task] = deque()  # to be computed again

    def __enter__(self) -> RayPool:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self._members:
            self._end(member)

    def first(self) -> Ready:
        """Where the first worker that is ready computes; waits for it."""
        while True:
            result = self._next()
            if isinstance(result, Ready):
                return result

    def answers(
        self,
        groups: list[list[int]],
        rows: int,
        most: int,
        pack: Callable[[list[int]], Packed],
        check: Callable[[Ready], None],
    ) -> Iterator[Answer]:
        """What the workers answer, as it comes; a call holds up to `most` groups, fewer towards the end.

        `pack` fetches a group when its turn has come; `check` refuses a worker that does not fit the run.
        """
        self._waiting.extend(groups)
        while self._hand_out(rows, most, pack):
            result = self._next()
            if isinstance(result, Ready):
                check(result)
            elif result is not None:
                yield result

    def _hired(self) -> Member:
        member = Member(self._actors.remote())
        member.calls.append((member.actor.begin.remote(self._job), None))
        return member

    def _end(self, member: Member) -> None:
        with contextlib.suppress(self._ray.exceptions.RayError, RuntimeError):  # it may be gone, or the cluster may be
            self._ray.kill(member.actor)

    def _hand_out(self, rows: int, most: int, pack: Callable[[list[int]], Packed]) -> bool:
        """Gives every worker its first task, then every worker its next; whether anything is left to wait for."""
        for calls in range(IN_FLIGHT):
            for member in self._members:
                if member.takes_another() and len(member.calls) == calls and (task := self._task(most, calls == 0)):
                    packed = [pack(group) for group in task.groups]
                    member.calls.append((member.actor.compute.remote(packed, rows), task))
        under_way = any(task is not None for member in self._members for _, task in member.calls)
        return bool(under_way or self._waiting or self._suspects)

    def _task(self, most: int, alone: bool) -> Task | None:
        """The next task for a worker, which has no other if `alone`."""
        if alone and self._suspects:
            return self._suspects.popleft()
        share = len(self._waiting) // (IN_FLIGHT * len(self._members))
        groups = [self._waiting.popleft() for _ in range(min(len(self._waiting), max(1, min(most, share))))]
        return Task(groups) if groups else None

    def _next(self) -> Ready | Answer | None:
        """What the next worker to answer says; None where it died instead."""
        oldest = {member.calls[0][0]: member for member in self._members if member.calls}
        reference = self._waited_for(list(oldest))
        member = oldest[reference]
        try:
            result: Ready | Answer = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise _raised(error, member.calls[0][1]) from error
        except self._ray.exceptions.RayError as error:
            self._replace(member, _shortened(str(error)))
            return None
        member.calls.popleft()
        if isinstance(result, Ready):
            member.ready, self._failed_starts = True, 0
        for text in result.warnings:
            warnings.warn(text, stacklevel=3)
        return result

    def _waited_for(self, references: list[Any]) -> Any:
        """The first of these calls that is answered, or whose worker died."""
        if any(member.ready for member in self._members):
            return self._ray.wait(references)[0][0]
        said, given_up = PATIENCE
        each = described(self._need)
        ready, _ = self._ray.wait(references, timeout=said)
        if not ready:
            warnings.warn(f"no worker has started: the cluster has no room yet for one of {each}", stacklevel=5)
            ready, _ = self._ray.wait(references, timeout=given_up - said)
        if not ready:
            raise InputError(
                f"no worker of {each} started in {given_up} seconds; ask for less or wait for room; {KEPT}"
            )
        return ready[0]

    def _replace(self, member: Member, reason: str) -> None:
        """Another worker in place of one that died, and its tasks to be done again."""
        self._end(member)  # one that only cannot be reached must not go on
        tasks = [task for _, task in member.calls if task is not None]
        self._blame(tasks, reason)
        for task in tasks:
            task.suspect = True
        self._suspects.extend(tasks)
        self._members[self._members.index(member)] = self._hired()

    def _blame(self, tasks: list[Task], reason: str) -> None:
        """Says over what a worker died, and gives up what workers have died over too often."""
        if not tasks:
            self._failed_starts += 1
            if self._failed_starts == DEATHS:
                raise InputError(f"{DEATHS} workers in a row died as they started: {reason}; {KEPT}")
            return
        if len(tasks) == 1:
            tasks[0].deaths += 1
            if tasks[0].deaths == DEATHS:
                raise InputError(f"{DEATHS} workers died over {tasks[0]}: {reason}; try fewer rows; {KEPT}")
        over = " or ".join(map(str, tasks))
        warnings.warn(f"a worker died over {over}; another computes them again", stacklevel=5)


def _raised(error: Any, task: Task | None) -> InputError:
    """An exception of a worker's as the one line that the user sees."""
    cause = error.cause
    if isinstance(cause, InputError):
        return InputError(str(cause))
    doing = "starting" if task is None else f"computing {task}"
    return InputError(f"a worker failed {doing}: {type(cause).__name__}: {_shortened(str(cause))}; {KEPT}")


def _shortened(text: str) -> str:
    """The last line, which in Ray's messages names the cause, and no more of it than fits."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no reason was given"
