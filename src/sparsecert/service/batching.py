"""Many requests, one device: the votes of all requests share forward passes.

One thread owns the device. A procedure answers each request in steps and asks `QueuedCopies` for votes, which only
queue them. The thread fills one forward pass after another with queued copies, whichever request they are for. Masks
are a pure function of (seed, example, draw), so an answer does not depend on other requests: it is what `Smoothed`
returns alone. (As everywhere, a score that two batch sizes round differently may tip a copy with two tied classes.)
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from typing import Any, Generic, TypeVar

import numpy as np
import torch

from sparsecert.counts import Counts, Int16, Int64
from sparsecert.procedures.pipelining import Steps
from sparsecert.schemes import ENUMERATION, Scheme
from sparsecert.service.metrics import Metrics
from sparsecert.votes.batches import pad_batch, to_device
from sparsecert.votes.copies import Copies
from sparsecert.votes.pairs import MOST_TABLED, PassRows, SelectionVotes, add_above, add_pairs
from sparsecert.votes.voter import Voter, as_counts, rank

T = TypeVar("T")

SHARES = 4  # a task gets at least one in SHARES rows of a pass
CLOSED = "the service is shutting down and takes no more requests"


class ShuttingDown(RuntimeError):
    """The service finishes the requests it has and takes no more."""


@dataclass(eq=False)
class VoteTask:
    """Copies of one input to classify: through the scheme's masks (seed, example, draw), for every draw of `draws`.

    `row` is the input's among those of its job.
    `votes` counts the classes; its last entry counts non-finite scores. For a fixed set of masks, `ranks` keeps each
    copy's ranking of the classes. By pairs, `pairs`, int64[1, classes, classes], counts how often each class is ranked
    above each other one, or `above`, int64[1, classes], how often `chosen` is; both on the device.
    """

    image: torch.Tensor
    scheme: Scheme
    example: int
    seed: int
    draws: range
    votes: Int64
    row: int = 0
    ranks: Int16 | None = None
    pairs: torch.Tensor | None = None
    above: torch.Tensor | None = None
    chosen: int = 0
    counted: int = 0

    @property
    def remaining(self) -> int:
        """The number of copies still to classify."""
        return len(self.draws) - self.counted

    def add(self, labels: torch.Tensor, ranks: torch.Tensor | None) -> Int64:
        """Counts the next copies' votes, and returns these counts."""
        counts: Int64 = np.bincount(labels.numpy(), minlength=len(self.votes)).astype(np.int64)
        self.votes += counts
        if self.ranks is not None and ranks is not None:
            self.ranks[self.counted : self.counted + len(labels)] = ranks.numpy()
        self.counted += len(labels)
        return counts

    def compare(self, scores: torch.Tensor, valid: torch.Tensor) -> None:
        """Counts how the next copies rank the classes, where that is asked; on the device."""
        rows = PassRows(0, len(scores), len(scores))
        if self.pairs is not None:
            add_pairs(scores, valid, rows, self.pairs)
        if self.above is not None:
            chosen = torch.full((len(scores),), self.chosen, device=scores.device)
            add_above(scores, valid, chosen, rows, self.above)


@dataclass(frozen=True)
class PassResult:
    """One forward pass's share of a task: its vote counts, and its first few copies for display."""

    task: VoteTask
    counts: Int64
    labels: list[int]
    draws: list[int]
    masks: torch.Tensor


OnPass = Callable[[PassResult], None]


@dataclass(frozen=True)
class QueuedCopies(Copies):
    """Copies whose votes are queued for the device thread, which batches them with those of other requests.

    The votes are ready when the procedure takes its next step.
    """

    queue: list[VoteTask] = field(default_factory=list)

    def begin_count(self, purpose: int, first: int, last: int) -> Callable[[], Counts]:
        tasks, votes = self._enqueue(self.seed, self.examples, range(purpose + first, purpose + last))
        if self.chosen is None:
            return lambda: as_counts(votes)
        above = torch.zeros(len(self), self.voter.classes, dtype=torch.int64, device=self.voter.device)
        for row, (task, label) in enumerate(zip(tasks, self.chosen.tolist(), strict=True)):
            task.above, task.chosen = above[row : row + 1], label
        return lambda: as_counts(votes, above.cpu().numpy())

    def begin_selection(self, purpose: int, first: int, last: int) -> SelectionVotes:
        tasks, votes = self._enqueue(self.seed, self.examples, range(purpose + first, purpose + last))
        pairs, classes = None, self.voter.classes
        if classes <= MOST_TABLED:
            pairs = torch.zeros(len(self), classes, classes, dtype=torch.int64, device=self.voter.device)
            for row, task in enumerate(tasks):
                task.pairs = pairs[row : row + 1]
        return SelectionVotes(
            torch.from_numpy(votes), pairs, lambda: (as_counts(votes), None if pairs is None else pairs.cpu().numpy())
        )

    def begin_ranks(self, masks: int) -> Callable[[], Int16]:
        tasks, _ = self._enqueue(0, [0] * len(self), range(ENUMERATION, ENUMERATION + masks))
        ranks = np.zeros((len(self), masks, self.voter.classes), dtype=np.int16)
        for task, own in zip(tasks, ranks, strict=True):
            task.ranks = own
        return lambda: ranks

    def _enqueue(self, seed: int, examples: Sequence[int] | Int64, draws: range) -> tuple[list[VoteTask], Int64]:
        """The tasks, and their votes: int64[b, classes + 1]."""
        votes: Int64 = np.zeros((len(self), self.voter.classes + 1), dtype=np.int64)
        tasks = [
            VoteTask(image, self.voter.scheme, int(example), seed, draws, own, row)
            for row, (image, example, own) in enumerate(zip(self.inputs, examples, votes, strict=True))
        ]
        self.queue.extend(tasks)
        return tasks, votes


Begin = Callable[[Voter, list[VoteTask]], Steps[T]]  # the steps of a request, which queue their votes in the list


@dataclass(eq=False)
class Job(Generic[T]):
    """The work of one request, or of several as a batch; `done` receives its result or its exception."""

    begin: Begin[T]
    on_pass: OnPass | None
    done: Future[T] = field(default_factory=Future)
    pending: list[VoteTask] = field(default_factory=list)
    cancelled: bool = False
    _steps: Steps[T] | None = None

    def step(self, base: Voter) -> None:
        """Runs until it needs votes or is done."""
        try:
            if self._steps is None:
                if not self.done.set_running_or_notify_cancel():
                    self.cancel()
                    return
                self._steps = self.begin(base, self.pending)
            while not self.pending:
                next(self._steps)
        except StopIteration as stop:
            self.done.set_result(stop.value)
        except Exception as error:  # fails this request alone; the others go on
            self.done.set_exception(error)

    def notify(self, result: PassResult) -> None:
        """Passes a result on to `on_pass`, if anybody still listens."""
        if self.on_pass is None or self.cancelled:
            return
        try:
            self.on_pass(result)
        except Exception as error:
            self.done.set_exception(error)

    def cancel(self) -> None:
        """Abandons the job: nobody waits for it any more."""
        self.cancelled = True


class Batcher:
    """The thread that owns the device. `close` finishes all jobs submitted before it.

    `copies` is how many copies of each pass a `PassResult` shows.
    """

    def __init__(self, base: Voter, metrics: Metrics, rows: int | None = None, copies: int = 16) -> None:
        self._base, self._metrics, self._copies = base, metrics, copies
        self.rows = rows or base.rows
        self._submitted: deque[Job[Any]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="device", daemon=True)
        self._thread.start()

    def submit(self, begin: Begin[T], on_pass: OnPass | None = None) -> Job[T]:
        """Queues a job; the device thread calls `on_pass` for every pass with copies of it."""
        job = Job(begin, on_pass)
        with self._changed:
            if self._closed:
                raise ShuttingDown(CLOSED)
            self._submitted.append(job)
            self._changed.notify()
        return job

    def close(self) -> None:
        """Takes no more jobs, and returns once all submitted ones are done."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        jobs: deque[Job[Any]] = deque()
        while True:
            with self._changed:
                while not (jobs or self._submitted or self._closed):
                    self._changed.wait()
                jobs.extend(self._submitted)
                self._submitted.clear()
                if not jobs:
                    return
            for job in jobs:
                if not job.pending and not job.cancelled:
                    job.step(self._base)
            jobs = deque(job for job in jobs if not (job.cancelled or job.done.done()))
            self._metrics.jobs.set(count_requests((job, task) for job in jobs for task in job.pending))
            if jobs:
                jobs.rotate(-self._run_pass(list(jobs)))  # round-robin: those just served go last

    def _run_pass(self, jobs: list[Job[Any]]) -> int:
        """Runs one forward pass for as many of the first jobs as fit; returns how many."""
        pending = [(job, task) for job in jobs for task in job.pending]
        alike = [(job, task) for job, task in pending if task.image.shape == pending[0][1].image.shape]
        shares = allocate_rows(self.rows, alike)
        try:
            results = self._classify([(task, rows) for _, task, rows in shares])
        except torch.cuda.OutOfMemoryError as error:
            torch.cuda.empty_cache()
            self.rows //= 2
            if not self.rows:
                self.rows = 1
                self._fail(jobs, error)
            return 0
        except Exception as error:
            self._fail(jobs, error)
            return 0
        served = len({id(job) for job, *_ in shares})
        requests = count_requests((job, task) for job, task, _ in shares)
        self._metrics.count_pass(requests, sum(rows for *_, rows in shares))
        for (job, task, _), result in zip(shares, results, strict=True):
            if not task.remaining:
                job.pending.remove(task)
            if not job.done.done():
                job.notify(result)
        return served

    def _fail(self, jobs: list[Job[Any]], error: Exception) -> None:
        for job in jobs:
            job.done.set_exception(error)

    def _classify(self, shares: list[tuple[VoteTask, int]]) -> list[PassResult]:
        """Classifies the next copies of each task, as many as its share."""
        base, device = self._base, self._base.device
        images = [task.image for task, _ in shares]
        if len({image.device for image in images}) > 1:  # some procedures move theirs themselves
            images = [image.to(device) for image in images]
        inputs = to_device(torch.stack(images), device)
        which = torch.repeat_interleave(torch.arange(len(shares)), torch.tensor([rows for _, rows in shares]))
        which = to_device(which, device)
        masks = draw_masks(shares, which)
        count = len(which)
        padding = pad_batch(count, max(self.rows, count), device) - count  # a GPU tunes anew for every batch size
        if padding > 0:
            masks = torch.cat((masks, masks[-1:].expand(padding, -1)))
            which = torch.cat((which, which[-1:].expand(padding)))
        scores = base.scores(inputs, which, masks)[:count]
        found = base.classify(scores)
        valid, labels = found < base.classes, found.cpu()
        ranks = rank(scores).cpu() if any(task.ranks is not None for task, _ in shares) else None
        results, at = [], 0
        for task, rows in shares:
            part, first = slice(at, at + rows), task.draws.start + task.counted
            few = min(rows, self._copies)
            counts = task.add(labels[part], None if ranks is None else ranks[part])
            task.compare(scores[part], valid[part])
            first_few = labels[part][:few].tolist(), list(range(first, first + few)), masks[part][:few]
            results.append(PassResult(task, counts, *first_few))
            at += rows
        return results


def count_requests(tasks: Iterable[tuple[Job[Any], VoteTask]]) -> int:
    """The number of inputs, which are one per request."""
    return len({(id(job), task.row) for job, task in tasks})


def draw_masks(shares: list[tuple[VoteTask, int]], which: torch.Tensor) -> torch.Tensor:
    """The masks of the next copies of each task, on the device of `which`, which says the share of each row.

    Neighbours with one scheme and one seed draw theirs together.
    """
    ends = accumulate(rows for _, rows in shares)
    numbers = [
        (task.example, task.draws.start + task.counted - (end - rows))
        for (task, rows), end in zip(shares, ends, strict=True)
    ]
    examples, offsets = to_device(torch.tensor(numbers), which.device)[which].unbind(1)
    draws, masks, at = offsets + torch.arange(len(which), device=which.device), [], 0
    for (scheme, seed), alike in groupby(shares, key=lambda share: (share[0].scheme, share[0].seed)):
        part = slice(at, at + sum(rows for _, rows in alike))
        masks.append(scheme.masks_at(seed, examples[part], draws[part]))
        at = part.stop
    return torch.cat(masks)


def allocate_rows(rows: int, pending: list[tuple[Job[Any], VoteTask]]) -> list[tuple[Job[Any], VoteTask, int]]:
    """Splits the rows of a pass evenly among tasks; what one does not need goes to the others.

    No task gets less than one in `SHARES` rows unless it needs less; those that do not fit wait for another pass. Masks
    are drawn task by task, so many small shares would cost more than they gain.
    """
    taking, least = 0, max(1, rows // SHARES)
    for place, (_, task) in enumerate(pending):
        taking += min(task.remaining, least)
        if taking > rows:
            pending = pending[:place]
            break
    shares: dict[int, int] = {}
    for place in sorted(range(len(pending)), key=lambda place: pending[place][1].remaining):
        shares[place] = min(pending[place][1].remaining, rows // (len(pending) - len(shares)))
        rows -= shares[place]
    return [(job, task, shares[place]) for place, (job, task) in enumerate(pending)]
