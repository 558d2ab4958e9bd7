"""Simulated votes: drawn from the class shares in a records file, without a model.

For the pairwise bound the file must be of `certify --bound pairwise`. The class is then the recorded one. A copy's
first choice is drawn from the shares of the votes; a class j that is neither this choice nor the recorded class is
ranked above the latter so often that this happens in the recorded share of all copies. So the number of copies that
rank the class above j is binomial, as in truth, and fits the votes; given the first choice, different j are taken to be
independent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sparsecert import records
from sparsecert.certificates import Method
from sparsecert.counts import Counts, Int64
from sparsecert.procedures import Procedure
from sparsecert.procedures.pipelining import finish
from sparsecert.results import Certifications
from sparsecert.schemes import DELTA_BITS, Scheme
from sparsecert.schemes import from_config as scheme_from_config
from sparsecert.votes.copies import Copies
from sparsecert.votes.pairs import SelectionVotes

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Simulation:
    """Inputs with the probabilities of their classes (and, last, of an invalid copy) and their true labels.

    Where copies ranked the classes, `chosen` is the class chosen by pairs and `behind` how likely a copy ranks each
    class above it.
    """

    shares: Floats
    true: Int64
    scheme: Scheme
    alpha: float
    seed: int
    chosen: Int64 | None = None
    behind: Floats | None = None

    @classmethod
    def of(cls, path: Path, alpha: float, seed: int, limit: int | None) -> Simulation:
        """The inputs of a records file."""
        found = records.read(path)
        if records.is_sequential(found.header):
            raise SystemExit(f"{path}: the vote shares of a sequential run are biased; name another file")
        lines = list(found.lines)[:limit]
        tallies = [line.votes for line in lines]
        votes = np.array([(*tally.votes, tally.invalid) for tally in tallies], dtype=np.float64)
        true = np.array([line.true for line in lines])
        scheme = scheme_from_config(found.header.run["scheme"])
        total = votes.sum(axis=1, keepdims=True)
        made = cls(votes / total, true, scheme, alpha, seed)
        if any(tally.above is None for tally in tallies):
            return made
        above = np.array([tally.above for tally in tallies])
        chosen = np.array([line.selection.leader() for line in lines if line.selection is not None])
        return replace(made, chosen=chosen, behind=(votes[:, :-1].sum(axis=1, keepdims=True) - above) / total)

    @property
    def gaps(self) -> Floats:
        """2 delta for every radius, and last one that no lead reaches."""
        return np.array([2 * delta / (1 << DELTA_BITS) for delta in self.scheme.deltas])

    def voter(self, stream: int) -> Any:
        """Simulated votes instead of a model's."""
        return SimulatedVoter(self, np.random.default_rng([self.seed, stream]))

    def lead(self, method: Method) -> Floats:
        """The true lead of each input's class, as the bound compares it."""
        labels, above = self.shares[:, :-1].argmax(axis=1), None
        if method.by_pairs:
            assert self.chosen is not None
            assert self.behind is not None
            labels, above = self.chosen, 1 - self.shares[:, -1:] - self.behind
        truth: Any = Counts(self.shares[:, :-1], self.shares[:, -1], above)  # type: ignore[arg-type]  # shares of them
        assert method.compared is not None
        leader, rival = method.compared(truth, labels)
        return np.asarray(leader - rival, dtype=np.float64)

    def certify(self, procedure: Procedure, stream: int = 1) -> Certifications:
        """The package's certificates from simulated votes."""
        inputs = torch.zeros(len(self.true), 1)
        return finish(procedure.certify(Copies(self.voter(stream), inputs, range(len(inputs))), self.alpha))


class SimulatedVoter:
    """Simulates `sparsecert.votes.voter.Voter`: draws votes from class shares."""

    device = torch.device("cpu")

    def __init__(self, simulation: Simulation, generator: np.random.Generator) -> None:
        self.simulation, self.scheme, self.generator = simulation, simulation.scheme, generator
        self.classes = simulation.shares.shape[1] - 1

    def begin_count(self, copies: Copies, draws: range) -> Callable[[], Counts]:
        """The votes of these inputs, as many as there are draws."""
        return self.votes(np.asarray(copies.examples), len(draws), copies.chosen is not None)

    def votes(self, which: Int64, draws: int, compared: bool) -> Callable[[], Counts]:
        """So many votes of each of these inputs, and how many rank the recorded class above each other one."""
        votes = self.generator.multinomial(draws, self.simulation.shares[which])
        above = self._above(which, votes) if compared else None
        return lambda: Counts(votes[:, :-1], votes[:, -1], above)

    def begin_selection(self, copies: Copies, draws: range) -> SelectionVotes:
        """The votes that choose: always the recorded class, the only one whose comparisons are known."""
        which, recorded = np.asarray(copies.examples), self.simulation.chosen
        counts = self.votes(which, len(draws), recorded is not None)()
        assert recorded is not None
        assert counts.above is not None
        pairs = np.full((len(which), self.classes, self.classes), -1)
        pairs[np.arange(len(which)), recorded[which]] = counts.above
        tables = torch.from_numpy(counts.votes), torch.from_numpy(pairs)
        return SelectionVotes(*tables, lambda: (Counts(counts.votes, counts.invalid), pairs))

    def _above(self, which: Int64, votes: Int64) -> Int64:
        """How many of these copies rank the recorded class above each class."""
        chosen, behind, shares = self.simulation.chosen, self.simulation.behind, self.simulation.shares[which]
        assert chosen is not None
        assert behind is not None
        own = np.arange(self.classes) == chosen[which][:, None]
        first, valid = shares[:, :-1], 1 - shares[:, -1:]
        neither = valid - first - first[own][:, None]  # first choice another class than j and the recorded one
        likely = np.clip((behind[which] - first) / np.maximum(neither, 1e-12), 0, 1)
        counts = votes[:, :-1].sum(axis=1, keepdims=True)
        others = np.maximum(counts - votes[:, :-1] - votes[:, :-1][own][:, None], 0)
        above = counts - votes[:, :-1] - self.generator.binomial(others, np.where(own, 0, likely))
        result: Int64 = np.where(own, counts, above)
        return result
