"""Sequential sampling: each input gets as many samples as its radius needs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sparsecert.bounds import corrected_alpha
from sparsecert.certificates.anytime import certify_all_anytime
from sparsecert.counts import Counts, Int64
from sparsecert.errors import InputError, check_int
from sparsecert.procedures.pipelining import Steps
from sparsecert.procedures.procedure import SampledProcedure, check_settings, warn_of_invalid
from sparsecert.procedures.stopping import FIRST_STAGE, StoppingRule, clear, estimation_stages, selection_stages
from sparsecert.results import Certifications, Predictions
from sparsecert.schemes import ESTIMATION, MAX_DRAWS, SELECTION, Scheme

if TYPE_CHECKING:
    from sparsecert.votes.copies import Copies

MOST_SAMPLES = 17_000, 6_000  # by default: for a radius, and for `at_least`
NOT_FOR_PREDICTION = "a prediction takes a fixed number of samples; use Fixed(n=...)"


@dataclass(frozen=True)
class Sequential(SampledProcedure):
    """Takes as many ablated copies of an input as its radius needs, at most `max_samples` in all.

    Up to `n0` of them select the class, fewer where it is clear. The others are taken in stages. Without `at_least`
    sampling stops when the radius cannot grow, or when more samples are expected to gain less than `tolerance` of
    radius per 1,000 copies. With `at_least` R it stops when the radius is R or more ("yes"), or when the lead is proved
    to be too small for that ("no", wrong with probability at most alpha), otherwise at the budget ("undecided").
    """

    max_samples: int | None = None  # 17,000, or 6,000 to answer `at_least`
    n0: int = 1_000
    tolerance: float = 0.01
    at_least: int | None = None
    bound: str | None = None  # the model's own, else two-sided

    most_inputs: ClassVar[int] = 2_048
    in_flight: ClassVar[int] = 3

    def __post_init__(self) -> None:
        object.__setattr__(self, "n0", check_int("n0", self.n0, 1, MAX_DRAWS - 1, "2**40 - 1"))
        budget = MOST_SAMPLES[self.at_least is not None] if self.max_samples is None else self.max_samples
        object.__setattr__(self, "max_samples", check_int("max_samples", budget, 1, MAX_DRAWS - 1, "2**40 - 1"))
        if budget <= self.n0:
            raise InputError(f"max_samples must be above n0 ({self.n0}), which choose the class, got {budget}")
        given: Any = self.tolerance
        if isinstance(given, bool) or not isinstance(given, Real) or not 0 <= float(given) < float("inf"):
            raise InputError(f"tolerance must be 0 or more, in radius per 1,000 samples, got {given!r}")
        object.__setattr__(self, "tolerance", float(given))
        if self.at_least is not None:
            object.__setattr__(self, "at_least", check_int("at_least", self.at_least, 0, (1 << 31) - 1, "2**31 - 1"))

    @property
    def most(self) -> int:
        """The most estimation votes."""
        assert self.max_samples is not None
        return self.max_samples - self.n0

    def check(self, scheme: Scheme, alpha: float | None, seed: int) -> None:
        assert alpha is not None
        self.method.compared_anytime()
        check_settings(scheme, seed)
        corrected_alpha(alpha, scheme.some_bound(), self.most)
        if self.at_least is not None and not scheme.is_open and self.at_least >= len(scheme.deltas) - 1:
            largest = len(scheme.deltas) - 2
            raise InputError(f"at_least must be at most {largest}, the largest radius of {scheme}, got {self.at_least}")

    def first_votes(self, scheme: Scheme) -> int:
        return FIRST_STAGE

    def most_votes(self, scheme: Scheme) -> int:
        return self.n0 + self.most

    def config(self) -> dict[str, Any]:
        """Plain JSON values for the header, without the bound, which it names separately."""
        return {name: value for name, value in asdict(self).items() if name != "bound"}

    def header_fields(self, scheme: Scheme, alpha: float | None, seed: int) -> dict[str, Any]:
        most = {"n0": int(self.n0), "n": self.most}  # the most there can be
        sampling = {"sampling": {"kind": "sequential", **self.config()}}
        return {**most, **self.sampled_header_fields(alpha, seed, self.method.theorem_name), **sampling}

    def prediction_header_fields(self, scheme: Scheme, alpha: float | None, seed: int) -> dict[str, Any]:
        raise InputError(NOT_FOR_PREDICTION)

    def certify(self, copies: Copies, alpha: float | None) -> Steps[Certifications]:
        """Class and rival are selected by the selection votes; the estimation votes use other masks.

        Batches depend on this group alone, so the same group gives the same counts whatever else is in flight.
        """
        assert alpha is not None
        scheme, group, copies = copies.voter.scheme, np.arange(len(copies)), copies.on_device()
        method, compared = self.method, self.method.compared_anytime()
        selection = StagedVotes(copies, SELECTION, method.by_pairs)
        rows = group
        for total in selection_stages(self.n0):
            yield from selection.extend(rows, total)
            rows = rows[~clear(selection.counts, rows)]
            if not len(rows):
                break
        label = selection.counts.labels
        second = strongest_rivals(selection.counts)
        estimation = StagedVotes(copies.comparing(label) if method.by_pairs else copies, ESTIMATION)
        rule = StoppingRule(self, selection.counts, scheme, alpha)
        kept = estimation.counts.take(group)  # of the best stage
        rows = group
        for total in estimation_stages(self.most):
            yield from estimation.extend(rows, total)
            votes = estimation.counts.take(rows)
            strongest, fixed = compared(votes, label[rows]), compared(votes, label[rows], second[rows])
            going = rule.update(rows, strongest, fixed, total)
            best = rows[rule.at[rows] == total]
            for known, now in zip(kept.arrays, estimation.counts.arrays, strict=True):
                known[best] = now[best]
            rows = rows[going]
            if not len(rows):
                break
        certificates = certify_all_anytime(selection.counts, kept, scheme, alpha, method.name, self.most)
        answers = tuple(rule.answer(row, certificates[row].radius) for row in group.tolist())
        samples = selection.taken + estimation.taken
        warn_of_invalid(int(selection.counts.invalid.sum() + estimation.counts.invalid.sum()), int(samples.sum()))
        return Certifications(certificates, self, alpha, copies.seed, kept, samples, selection.counts, answers=answers)

    def predict(self, copies: Copies, alpha: float | None) -> Steps[Predictions]:
        raise InputError(NOT_FOR_PREDICTION)


class StagedVotes:
    """The votes of a group for one purpose, extended stage by stage; `choosing`, they choose a class by pairs."""

    def __init__(self, copies: Copies, purpose: int, choosing: bool = False) -> None:
        self.copies, self.purpose, self.choosing = copies, purpose, choosing
        self.taken: Int64 = np.zeros(len(copies), dtype=np.int64)
        votes: Int64 = np.zeros((len(copies), copies.voter.classes), dtype=np.int64)
        self.counts = Counts(votes, self.taken.copy(), None if copies.chosen is None else votes.copy())
        self._pairs: Int64 | None = None

    def extend(self, rows: Int64, total: int) -> Steps[None]:
        """Extends the votes of these inputs, which have equally many, to `total`; yields once they are queued."""
        copies, draws = self.copies.of(rows), (self.purpose, int(self.taken[rows[0]]), total)
        if self.choosing:
            selected = copies.begin_selection(*draws)
            yield
            fresh, pairs = selected.fetch()
        else:
            counted = copies.begin_count(*draws)
            yield
            fresh = counted()
        self.counts.votes[rows] += fresh.votes
        self.counts.invalid[rows] += fresh.invalid
        if self.counts.above is not None and fresh.above is not None:
            self.counts.above[rows] += fresh.above
        self.taken[rows] = total
        if self.choosing:
            self._choose(rows, pairs)

    def _choose(self, rows: Int64, pairs: Int64 | None) -> None:
        if pairs is not None:
            if self._pairs is None:
                self._pairs = np.zeros((len(self.taken), *pairs.shape[1:]), dtype=np.int64)
            self._pairs[rows] += pairs
        self.counts = self.counts.choosing_by(self._pairs)


def strongest_rivals(selection: Counts) -> Int64:
    """int64[b]: of each input, the class that did best against the one chosen; the lowest-numbered on a tie."""
    each, labels = np.arange(len(selection)), selection.labels
    against = selection.votes.copy() if selection.above is None else -selection.above
    against[each, labels] = np.iinfo(np.int64).min
    best: Int64 = against.argmax(axis=1)
    return best
