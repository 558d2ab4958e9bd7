"""Sequential sampling: each input gets as many samples as its radius needs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sparsecert.bounds import corrected_alpha
from sparsecert.certificates import CERTIFICATES
from sparsecert.certificates.anytime import certify_anytime
from sparsecert.counts import Counts, Int64
from sparsecert.errors import InputError, check_int
from sparsecert.procedures.fixed import sampled_header_fields
from sparsecert.procedures.pipelining import Steps
from sparsecert.procedures.procedure import Procedure, check_settings, warn_of_invalid
from sparsecert.procedures.stopping import FIRST_STAGE, StoppingRule, clear, estimation_stages, selection_stages
from sparsecert.results import Certifications, Predictions
from sparsecert.schemes import ESTIMATION, MAX_DRAWS, SELECTION, Scheme

if TYPE_CHECKING:
    from sparsecert.votes.copies import Copies

MOST_SAMPLES = 17_000, 6_000  # by default: for a radius, and for `at_least`
NOT_FOR_PREDICTION = "a prediction takes a fixed number of samples; use Fixed(n=...)"


@dataclass(frozen=True)
class Sequential(Procedure):
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
    bound: str = "two-sided"

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
        CERTIFICATES[self.bound]
        check_settings(scheme, seed)
        corrected_alpha(alpha, scheme, self.most)
        if self.at_least is not None and self.at_least >= len(scheme.deltas) - 1:
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
        return {
            **most,
            **sampled_header_fields(alpha, seed, self.bound, CERTIFICATES[self.bound].theorem_name),
            **sampling,
        }

    def prediction_header_fields(self, scheme: Scheme, alpha: float | None, seed: int) -> dict[str, Any]:
        raise InputError(NOT_FOR_PREDICTION)

    def certify(self, copies: Copies, alpha: float | None) -> Steps[Certifications]:
        """Class and rival are selected by the selection votes; the estimation votes use other masks.

        Batches depend on this group alone, so the same group gives the same counts whatever else is in flight.
        """
        assert alpha is not None
        scheme, group, copies = copies.voter.scheme, np.arange(len(copies)), copies.on_device()
        selection, estimation = StagedVotes(copies, SELECTION), StagedVotes(copies, ESTIMATION)
        rows = group
        for total in selection_stages(self.n0):
            yield from selection.extend(rows, total)
            rows = rows[~clear(selection.counts, rows)]
            if not len(rows):
                break
        chosen = [selection.counts[row] for row in group.tolist()]
        label, second = first_two(selection.counts.votes)
        rule = StoppingRule(self, chosen, scheme, alpha)
        kept = Counts(estimation.counts.votes.copy(), estimation.counts.invalid.copy())  # of the best stage
        rows = group
        for total in estimation_stages(self.most):
            yield from estimation.extend(rows, total)
            going = rule.update(rows, *_standings(estimation.counts, rows, label, second, total, self.bound), total)
            best = rows[rule.at[rows] == total]
            kept.votes[best], kept.invalid[best] = estimation.counts.votes[best], estimation.counts.invalid[best]
            rows = rows[going]
            if not len(rows):
                break
        certificates = tuple(
            certify_anytime(chosen[row], kept[row], scheme, alpha, self.bound, self.most) for row in group.tolist()
        )
        answers = tuple(rule.answer(row, certificates[row].radius) for row in group.tolist())
        samples = selection.taken + estimation.taken
        warn_of_invalid(int(selection.counts.invalid.sum() + estimation.counts.invalid.sum()), int(samples.sum()))
        return Certifications(certificates, self, alpha, copies.seed, kept, samples, selection.counts, answers=answers)

    def predict(self, copies: Copies, alpha: float | None) -> Steps[Predictions]:
        raise InputError(NOT_FOR_PREDICTION)


class StagedVotes:
    """The votes of a group for one purpose, extended stage by stage."""

    def __init__(self, copies: Copies, purpose: int) -> None:
        self.copies, self.purpose = copies, purpose
        self.taken: Int64 = np.zeros(len(copies), dtype=np.int64)
        self.counts = Counts(np.zeros((len(copies), copies.voter.classes), dtype=np.int64), self.taken.copy())

    def extend(self, rows: Int64, total: int) -> Steps[None]:
        """Extends the votes of these inputs, which have equally many, to `total`; yields once they are queued."""
        counted = self.copies.of(rows).begin_count(self.purpose, int(self.taken[rows[0]]), total)
        yield
        fresh = counted()
        self.counts.votes[rows] += fresh.votes
        self.counts.invalid[rows] += fresh.invalid
        self.taken[rows] = total


def first_two(votes: Int64) -> tuple[Int64, Int64]:
    """The two classes with the most votes of each row; the lower-numbered one first on a tie."""
    first = votes.argmax(axis=1)
    others = votes.copy()
    others[np.arange(len(votes)), first] = -1
    return first, others.argmax(axis=1)


def _standings(
    counts: Counts, rows: Int64, label: Int64, second: Int64, total: int, bound: str
) -> tuple[Int64, Int64, Int64]:
    """Votes for the label, for the largest rival plus all invalid ones, and for the runner-up of the selection."""
    votes, each = counts.votes[rows], np.arange(len(rows))
    leader = votes[each, label[rows]]
    if bound == "one-sided":
        return leader, total - leader, total - leader
    runner_up = votes[each, second[rows]]
    votes[each, label[rows]] = -1  # a copy, by fancy indexing
    return leader, votes.max(axis=1) + counts.invalid[rows], runner_up
