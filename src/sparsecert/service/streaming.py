"""Progress of a certificate while the votes come in. Every radius it reports is certified.

With sequential sampling the certificate is anytime-valid (`certificates.anytime`): the largest radius so far may be
shown at any moment, and is what the last line certifies. With a fixed number of samples nothing is certified before the
last vote, so the lines have no radius. Either way the bounds on each class's probability are anytime-valid
(`service.confidence`).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

import numpy as np

from sparsecert.certificates.anytime import certify_anytime
from sparsecert.counts import Counts, Int64, Tally
from sparsecert.procedures import Procedure, Sequential
from sparsecert.schemes import ESTIMATION, MAX_DRAWS, SELECTION, FixedMasks, Scheme
from sparsecert.service.batching import PassResult, VoteTask
from sparsecert.service.confidence import anytime_bounds
from sparsecert.service.schemas import AblatedCopy, CertifySettings, ProgressLine


@dataclass(frozen=True)
class Snapshot:
    """The votes so far, and the radius certified so far."""

    selection: Tally
    votes: Tally
    radius: int | None
    result: PassResult


class ProgressStream:
    """Follows a job in the device thread and hands its latest snapshot to an event loop.

    Only the latest snapshot is kept: a slow reader misses some, and nothing piles up.
    """

    def __init__(
        self,
        scheme: Scheme,
        settings: CertifySettings,
        procedure: Procedure,
        classes: int,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._scheme, self._settings = scheme, settings
        self._sequential = procedure if isinstance(procedure, Sequential) else None
        self._by_pairs = self._sequential is not None and self._sequential.method.by_pairs
        self._most = procedure.most_votes(scheme)
        self._selection: Int64 = np.zeros(classes + 1, dtype=np.int64)
        self._votes: Int64 = np.zeros(classes + 1, dtype=np.int64)
        self._pairs: Int64 | None = None  # of the selection, once it is counted
        self._above: Int64 = np.zeros(classes, dtype=np.int64)
        self._radius: int | None = None
        self._loop, self.changed = loop, asyncio.Event()
        self._latest: Snapshot | None = None

    def on_pass(self, result: PassResult) -> None:
        """Adds the votes of a forward pass; called in the device thread."""
        purpose = result.task.draws.start // MAX_DRAWS * MAX_DRAWS
        if purpose == SELECTION:
            self._selection += result.counts
        else:
            self._votes += result.counts
        selection, votes = _tally(self._selection), _tally(self._votes)
        if self._by_pairs:
            selection, votes = self._compared(result.task, selection, votes)
        if self._sequential is not None and purpose == ESTIMATION and not result.task.remaining:
            self._certify(selection, votes, self._sequential)
        self._loop.call_soon_threadsafe(self._publish, Snapshot(selection, votes, self._radius, result))

    def _compared(self, task: VoteTask, selection: Tally, votes: Tally) -> tuple[Tally, Tally]:
        """The votes with the class chosen and how it compares with the others, up to the last stage that is counted."""
        if not task.remaining and task.pairs is not None:
            pairs = task.pairs.cpu().numpy()
            self._pairs = pairs if self._pairs is None else self._pairs + pairs
        if not task.remaining and task.above is not None:
            self._above = self._above + task.above.cpu().numpy()[0]
        chosen = Counts.of(selection).choosing_by(self._pairs)[0]
        return chosen, replace(votes, above=tuple(self._above.tolist()))

    def _certify(self, selection: Tally, votes: Tally, procedure: Sequential) -> None:
        """At the same stages as `Smoothed.certify`, so that the last radius is the one it returns."""
        alpha, bound = self._settings.alpha, procedure.method.name
        found = certify_anytime(selection, votes, self._scheme, alpha, bound, procedure.most).radius
        if found is not None:
            self._radius = found if self._radius is None else max(found, self._radius)

    def _publish(self, snapshot: Snapshot) -> None:
        self._latest = snapshot
        self.changed.set()

    def line(self) -> ProgressLine | None:
        """The latest snapshot; None if it was returned before."""
        snapshot, self._latest = self._latest, None
        self.changed.clear()
        if snapshot is None:
            return None
        drawn = not isinstance(self._scheme, FixedMasks)
        alpha, most = self._settings.alpha, self._settings.n if self._sequential is None else self._sequential.most
        return ProgressLine(
            samples=snapshot.selection.total + snapshot.votes.total,
            most=self._most,
            selection=list(snapshot.selection.votes),
            votes=list(snapshot.votes.votes),
            radius=snapshot.radius,
            label=None if snapshot.radius is None else snapshot.selection.leader(),
            bounds=list(anytime_bounds(snapshot.votes, self._scheme, alpha, most)) if drawn else None,
            copies=self._copies(snapshot.result),
        )

    def _copies(self, result: PassResult) -> list[AblatedCopy]:
        """The first copies of a pass, as many as the request wants to see."""
        if self._scheme.values is not None:  # nothing is ablated, so nothing is retained
            return []
        start, classes = result.task.draws.start // MAX_DRAWS * MAX_DRAWS, len(self._votes) - 1
        few = zip(result.draws, result.labels, result.masks.cpu().numpy(), strict=True)
        return [
            AblatedCopy(
                draw=-1 - (draw - start) if start == SELECTION else draw - start,
                label=None if label == classes else label,
                retained=np.flatnonzero(mask).tolist(),
            )
            for draw, label, mask in list(few)[: self._settings.copies]
        ]


def _tally(votes: Int64) -> Tally:
    return Tally(tuple(votes[:-1].tolist()), int(votes[-1]))
