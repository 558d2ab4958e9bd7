"""Many requests, one device: the votes that all of them ask for go through the model together.

One thread owns the device. Every request is answered by a procedure, in steps; the procedure asks a `SharedVoter` for
votes, which only notes what is asked. The thread then fills one forward pass after the other with
copies of whatever is asked for, whoever asks. Masks are a pure function of (seed, example, draw), so what a request is
answered does not depend on the others: it is what `Smoothed` returns alone. (As everywhere, a score that two batch
sizes round differently may tip a copy whose two best classes are level.)
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from sparsecert.counts import Counts
from sparsecert.procedures.pipelining import Steps
from sparsecert.progress import OnProgress, ignore
from sparsecert.schemes import ENUMERATION
from sparsecert.service.metrics import Metrics
from sparsecert.votes.batches import pad_batch, to_device
from sparsecert.votes.voter import Voter, rank

T = TypeVar("T")
Whole = npt.NDArray[np.int64]

SHARES = 4  # of a pass, that a ballot gets at least one of
CLOSED = "the service is shutting down and takes no more requests"


class ShuttingDown(RuntimeError):
    """The service finishes what it took, and takes nothing more."""


@dataclass(eq=False)
class Ballot:
    """Copies of one input that are to vote: those of the masks (seed, example, draw) for every draw of `draws`.

    `votes` counts the classes, the last entry the scores that were not finite. A vote of a fixed set of masks keeps how
    each copy ranks the classes as well.
    """

    image: torch.Tensor
    example: int
    seed: int
    draws: range
    votes: Whole
    ranks: npt.NDArray[np.int16] | None = None
    taken: int = 0

    @property
    def left(self) -> int:
        """How many copies have not voted."""
        return len(self.draws) - self.taken

    def take(self, labels: torch.Tensor, ranks: torch.Tensor | None) -> Whole:
        """Counts the next copies' votes, and returns them."""
        fresh: Whole = np.bincount(labels.numpy(), minlength=len(self.votes)).astype(np.int64)
        self.votes += fresh
        if self.ranks is not None and ranks is not None:
            self.ranks[self.taken : self.taken + len(labels)] = ranks.numpy()
        self.taken += len(labels)
        return fresh


@dataclass(frozen=True)
class Shown:
    """What a pass did for one ballot: its fresh votes, and the first of the copies with masks and labels to show."""

    ballot: Ballot
    fresh: Whole
    labels: list[int]
    draws: list[int]
    masks: torch.Tensor


OnPass = Callable[[Shown], None]


class SharedVoter(Voter):
    """A `Voter` whose votes are taken by the thread that owns the device, together with those of other requests."""

    def __init__(self, base: Voter, asked: list[Ballot]) -> None:
        self.__dict__.update(base.__dict__)  # the model was looked at once, when the service began
        self._asked = asked

    def begin_count(
        self,
        inputs: torch.Tensor,
        examples: Sequence[int],
        draws: range,
        seed: int,
        on_progress: OnProgress = ignore,
    ) -> Callable[[], Counts]:
        """Notes what is asked; the counts can be fetched when the work that asked is stepped on."""
        ballots = [self._ballot(one, example, seed, draws) for one, example in zip(inputs, examples, strict=True)]

        def counted() -> Counts:
            votes = np.stack([ballot.votes for ballot in ballots])
            return Counts(votes[:, :-1].copy(), votes[:, -1].copy())

        return counted

    def begin_ranks(
        self, inputs: torch.Tensor, masks: int, on_progress: OnProgress = ignore
    ) -> Callable[[], torch.Tensor]:
        """The same for how each copy by each mask of a fixed set ranks the classes."""
        ballots = [self._ballot(one, 0, 0, range(ENUMERATION, ENUMERATION + masks)) for one in inputs]
        for ballot in ballots:
            ballot.ranks = np.zeros((masks, self.classes), dtype=np.int16)
        return lambda: torch.from_numpy(np.stack([ballot.ranks for ballot in ballots if ballot.ranks is not None]))

    def _ballot(self, image: torch.Tensor, example: int, seed: int, draws: range) -> Ballot:
        ballot = Ballot(image, int(example), seed, draws, np.zeros(self.classes + 1, dtype=np.int64))
        self._asked.append(ballot)
        return ballot


@dataclass(eq=False)
class Job(Generic[T]):
    """The work of one request: `done` gets what it returns, or why it could not."""

    begin: Callable[[Voter], Steps[T]]
    on_pass: OnPass | None
    done: Future[T] = field(default_factory=Future)
    asked: list[Ballot] = field(default_factory=list)
    dropped: bool = False
    _work: Steps[T] | None = None

    def step(self, base: Voter) -> None:
        """Goes on until votes are asked for or the work is done."""
        try:
            if self._work is None:
                if not self.done.set_running_or_notify_cancel():
                    self.drop()
                    return
                self._work = self.begin(SharedVoter(base, self.asked))
            while not self.asked:
                next(self._work)
        except StopIteration as stop:
            self.done.set_result(stop.value)
        except Exception as error:  # whatever it is, the one who asked has to hear of it, and the others go on
            self.done.set_exception(error)

    def tell(self, shown: Shown) -> None:
        """Tells whoever listens what a pass did for this job."""
        if self.on_pass is None or self.dropped:
            return
        try:
            self.on_pass(shown)
        except Exception as error:
            self.done.set_exception(error)

    def drop(self) -> None:
        """Nobody waits for it any more: it is left where it is."""
        self.dropped = True


class Batcher:
    """The thread that owns the device. `close` finishes everything that was taken before it."""

    def __init__(self, base: Voter, metrics: Metrics, rows: int | None = None, shown: int = 16) -> None:
        self._base, self._metrics, self._shown = base, metrics, shown
        self.rows = rows or base.rows
        self._waiting: deque[Job[Any]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="device", daemon=True)
        self._thread.start()

    def submit(self, begin: Callable[[Voter], Steps[T]], on_pass: OnPass | None = None) -> Job[T]:
        """Takes a request; `on_pass` is called in the device thread for every pass with copies of it."""
        job = Job(begin, on_pass)
        with self._changed:
            if self._closed:
                raise ShuttingDown(CLOSED)
            self._waiting.append(job)
            self._changed.notify()
        return job

    def close(self) -> None:
        """Takes no more work, and returns when all that was taken is done."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        jobs: deque[Job[Any]] = deque()
        while True:
            with self._changed:
                while not (jobs or self._waiting or self._closed):
                    self._changed.wait()
                jobs.extend(self._waiting)
                self._waiting.clear()
                if not jobs:
                    return
            for job in jobs:
                if not job.asked and not job.dropped:
                    job.step(self._base)
            jobs = deque(job for job in jobs if not (job.dropped or job.done.done()))
            self._metrics.jobs.set(len(jobs))
            if jobs:
                jobs.rotate(-self._take(list(jobs)))  # who was served last is served again after the others

    def _take(self, jobs: list[Job[Any]]) -> int:
        """One forward pass with copies of the first jobs, as many as fit; how many that were."""
        shares = shared_out(self.rows, [(job, ballot) for job in jobs for ballot in job.asked])
        try:
            results = self._passed([(ballot, rows) for _, ballot, rows in shares])
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
        self._metrics.count_pass(served, sum(rows for *_, rows in shares))
        for (job, ballot, _), result in zip(shares, results, strict=True):
            if not ballot.left:
                job.asked.remove(ballot)
            if not job.done.done():
                job.tell(result)
        return served

    def _fail(self, jobs: list[Job[Any]], error: Exception) -> None:
        for job in jobs:
            job.done.set_exception(error)

    def _passed(self, shares: list[tuple[Ballot, int]]) -> list[Shown]:
        """Takes the next so many votes of each ballot."""
        base, device = self._base, self._base.device
        inputs = torch.stack([ballot.image.to(device) for ballot, _ in shares])
        which = torch.repeat_interleave(torch.arange(len(shares)), torch.tensor([rows for _, rows in shares]))
        masks = torch.cat([self._masks(ballot, rows) for ballot, rows in shares])
        live = len(which)
        more = pad_batch(live, max(self.rows, live), device) - live  # a GPU prepares anew for every number of rows
        if more > 0:
            masks = torch.cat((masks, masks[-1:].expand(more, -1)))
            which = torch.cat((which, which[-1:].expand(more)))
        scores = base.scores(inputs, to_device(which, device), masks)[:live]
        labels = base.classify(scores).cpu()
        ranks = rank(scores).cpu() if any(ballot.ranks is not None for ballot, _ in shares) else None
        found, at = [], 0
        for ballot, rows in shares:
            part, first = slice(at, at + rows), ballot.draws.start + ballot.taken
            few = min(rows, self._shown)
            fresh = ballot.take(labels[part], None if ranks is None else ranks[part])
            first_few = labels[part][:few].tolist(), list(range(first, first + few)), masks[part][:few]
            found.append(Shown(ballot, fresh, *first_few))
            at += rows
        return found

    def _masks(self, ballot: Ballot, rows: int) -> torch.Tensor:
        device, first = self._base.device, ballot.draws.start + ballot.taken
        draws = torch.arange(first, first + rows, device=device)
        return self._base.scheme.masks_at(ballot.seed, torch.full_like(draws, ballot.example), draws)


def shared_out(rows: int, asked: list[tuple[Job[Any], Ballot]]) -> list[tuple[Job[Any], Ballot, int]]:
    """So many rows of a pass shared out among the ballots: the same for each, and what one does not need to the others.

    No ballot gets less than one of `SHARES` parts of the pass, unless it needs less: the last ones wait for another
    pass. Masks are drawn ballot by ballot, and many small parts would cost more than they gain.
    """
    taking, least = 0, max(1, rows // SHARES)
    for place, (_, ballot) in enumerate(asked):
        taking += min(ballot.left, least)
        if taking > rows:
            asked = asked[:place]
            break
    shares: dict[int, int] = {}
    for place in sorted(range(len(asked)), key=lambda place: asked[place][1].left):
        shares[place] = min(asked[place][1].left, rows // (len(asked) - len(shares)))
        rows -= shares[place]
    return [(job, ballot, shares[place]) for place, (job, ballot) in enumerate(asked)]
