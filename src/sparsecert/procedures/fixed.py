"""A fixed number of samples for every input: the paper's procedure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsecert.bounds import corrected_alpha, predicted, predicted_by_pairs
from sparsecert.counts import Counts
from sparsecert.errors import InputError
from sparsecert.procedures.pipelining import Steps
from sparsecert.procedures.procedure import SampledProcedure, check_settings, warn_of_invalid
from sparsecert.results import Certifications, Predictions
from sparsecert.schemes import ESTIMATION, PREDICTION, SELECTION, Scheme

if TYPE_CHECKING:
    from sparsecert.votes.copies import Copies

TENTH = 10  # of a prediction's copies, one in so many chooses the class by pairs
Draws = tuple[int, int, int]  # the purpose, the first draw, and the one after the last


@dataclass(frozen=True)
class Fixed(SampledProcedure):
    """n0 copies select the class; n fresh ones bound its probability and, for the two-sided bound, its rivals'.

    With probability at least 1 - alpha the certified class is g's answer everywhere within the radius. To predict, n
    copies vote, and an exact binomial test at alpha decides whether the leader is g's answer. By the "pairwise" bound g
    is the class that beats every other one, by the others the one with most votes. None: the model's own bound, else
    "two-sided".
    """

    n0: int = 1_000
    n: int = 10_000
    bound: str | None = None

    def check(self, scheme: Scheme, alpha: float | None, seed: int) -> None:
        self.elects_by(scheme)  # refuses an unknown bound
        check_settings(scheme, seed, alpha, n0=self.n0, n=self.n)

    def first_votes(self, scheme: Scheme) -> int:
        return self.n

    def most_votes(self, scheme: Scheme) -> int:
        return self.n0 + self.n

    def header_fields(self, scheme: Scheme, alpha: float | None, seed: int) -> dict[str, Any]:
        samples = {"n0": int(self.n0), "n": int(self.n)}  # numpy's numbers are no JSON
        return {**samples, **self.sampled_header_fields(alpha, seed, self.method.theorem_for(scheme)[1])}

    def prediction_header_fields(self, scheme: Scheme, alpha: float | None, seed: int) -> dict[str, Any]:
        assert alpha is not None
        common = {"alpha": float(alpha), "seed": int(seed)}
        rule = {"rule": self.elects_by(scheme)}
        if not self.method.by_pairs:
            return {"n": int(self.n), **common, **rule}
        samples = {"n0": int(self.n) - self.tested, "n": self.tested}
        return {**samples, **common, "bound": self.method.name, **rule}

    def certify(self, copies: Copies, alpha: float | None) -> Steps[Certifications]:
        assert alpha is not None
        method, scheme = self.method, copies.voter.scheme
        if method.by_pairs:
            selection, estimation = yield from _votes_by_pairs(copies, (SELECTION, 0, self.n0), (ESTIMATION, 0, self.n))
        else:
            votes = copies.begin_count(SELECTION, 0, self.n0), copies.begin_count(ESTIMATION, 0, self.n)
            yield
            selection, estimation = (counted() for counted in votes)
        warn_of_invalid(int(selection.invalid.sum() + estimation.invalid.sum()), (self.n0 + self.n) * len(estimation))
        certificates = tuple(
            method.certify(selection[row], estimation[row], scheme, alpha) for row in range(len(estimation))
        )
        samples = np.full(len(certificates), self.n0 + self.n)
        return Certifications(certificates, self, alpha, copies.seed, estimation, samples, selection, scheme=scheme)

    def predict(self, copies: Copies, alpha: float | None) -> Steps[Predictions]:
        assert alpha is not None
        if self.method.by_pairs:
            return (yield from self._predict_by_pairs(copies, alpha))
        level = corrected_alpha(alpha, copies.voter.scheme, self.n)
        counted = copies.begin_count(PREDICTION, 0, self.n)
        yield
        votes = counted()
        warn_of_invalid(int(votes.invalid.sum()), self.n * len(votes))
        answers = tuple(predicted(votes[row], level) for row in range(len(votes)))
        return Predictions(votes, answers, self.n, alpha, copies.seed)

    def _predict_by_pairs(self, copies: Copies, alpha: float) -> Steps[Predictions]:
        """The first tenth of the copies choose the class, the others test it: see `predicted_by_pairs`."""
        choosing = self.n - self.tested
        level = corrected_alpha(alpha, copies.voter.scheme, self.tested)
        selection, tested = yield from _votes_by_pairs(
            copies, (PREDICTION, 0, choosing), (PREDICTION, choosing, self.n)
        )
        warn_of_invalid(int(selection.invalid.sum() + tested.invalid.sum()), self.n * len(tested))
        answers = tuple(predicted_by_pairs(selection[row], tested[row], level) for row in range(len(tested)))
        return Predictions(tested, answers, self.n, alpha, copies.seed, selection=selection)

    @property
    def tested(self) -> int:
        """How many of the n copies of a prediction test the class: by pairs a tenth of them choose it."""
        if not self.method.by_pairs:
            return int(self.n)
        if self.n < 2:
            raise InputError(f"n must be at least 2 to predict by pairs: one copy chooses, another tests; got {self.n}")
        return int(self.n) - max(1, int(self.n) // TENTH)


def _votes_by_pairs(copies: Copies, choosing: Draws, counting: Draws) -> Steps[tuple[Counts, Counts]]:
    """The votes that choose the classes by pairs, and those that compare these classes with all others.

    The device has chosen before it counts the latter. The host fetches both at the end.
    """
    selected = copies.begin_selection(*choosing)
    yield
    counted = copies.comparing(selected.labels()).begin_count(*counting)
    yield
    votes, pairs = selected.fetch()
    return votes.choosing_by(pairs), counted()
