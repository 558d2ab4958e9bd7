"""What a stream shows while the votes come in. Every radius in it is a certificate.

With sequential sampling the certificate holds at whatever moment the votes are looked at, over all moments together
(`certificates.anytime`), so the largest radius so far may be shown, and is what the last line certifies. With a fixed
number of samples there is no certificate before the last vote: its lines have no radius. The bounds on each class's
probability hold at every moment in either case (`service.confidence`).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import numpy as np

from sparsecert.certificates.anytime import certify_anytime
from sparsecert.counts import Tally
from sparsecert.procedures import Procedure, Sequential
from sparsecert.schemes import ESTIMATION, MAX_DRAWS, SELECTION, FixedMasks, Scheme
from sparsecert.service.batching import Shown, Whole
from sparsecert.service.confidence import bounds_at_every_moment
from sparsecert.service.schemas import CertifySettings, Copy, ProgressLine


@dataclass(frozen=True)
class Snapshot:
    """The votes at one moment, and what they have certified by then."""

    selection: Tally
    votes: Tally
    radius: int | None
    shown: Shown


class ProgressStream:
    """Follows a job in the device's thread, and hands its latest snapshot to an event loop.

    Only the latest one is kept: a slow reader misses some, and nothing piles up.
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
        self._most = procedure.most_votes(scheme)
        self._selection: Whole = np.zeros(classes + 1, dtype=np.int64)
        self._votes: Whole = np.zeros(classes + 1, dtype=np.int64)
        self._radius: int | None = None
        self._loop, self.changed = loop, asyncio.Event()
        self._latest: Snapshot | None = None

    def on_pass(self, shown: Shown) -> None:
        """Takes in a forward pass; called in the device's thread."""
        looked = shown.ballot.draws.start // MAX_DRAWS * MAX_DRAWS
        if looked == SELECTION:
            self._selection += shown.fresh
        else:
            self._votes += shown.fresh
        selection, votes = _tally(self._selection), _tally(self._votes)
        if self._sequential is not None and looked == ESTIMATION and not shown.ballot.left:
            self._certify(selection, votes, self._sequential)
        self._loop.call_soon_threadsafe(self._publish, Snapshot(selection, votes, self._radius, shown))

    def _certify(self, selection: Tally, votes: Tally, sampling: Sequential) -> None:
        """Looks when `Smoothed.certify` looks, so that the last radius is the one that it returns."""
        settings = self._settings
        found = certify_anytime(selection, votes, self._scheme, settings.alpha, settings.bound, sampling.most).radius
        if found is not None:
            self._radius = found if self._radius is None else max(found, self._radius)

    def _publish(self, snapshot: Snapshot) -> None:
        self._latest = snapshot
        self.changed.set()

    def line(self) -> ProgressLine | None:
        """The latest snapshot, once; None where there is no new one."""
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
            bounds=list(bounds_at_every_moment(snapshot.votes, self._scheme, alpha, most)) if drawn else None,
            copies=self._copies(snapshot.shown),
        )

    def _copies(self, shown: Shown) -> list[Copy]:
        """Some of the copies, as many as were asked for."""
        if self._scheme.values is not None:  # nothing is ablated: there is nothing that is retained
            return []
        start, classes = shown.ballot.draws.start // MAX_DRAWS * MAX_DRAWS, len(self._votes) - 1
        few = zip(shown.draws, shown.labels, shown.masks.cpu().numpy(), strict=True)
        return [
            Copy(
                draw=-1 - (draw - start) if start == SELECTION else draw - start,
                label=None if label == classes else label,
                retained=np.flatnonzero(mask).tolist(),
            )
            for draw, label, mask in list(few)[: self._settings.copies]
        ]


def _tally(votes: Whole) -> Tally:
    return Tally(tuple(votes[:-1].tolist()), int(votes[-1]))
