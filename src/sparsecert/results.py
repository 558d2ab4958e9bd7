"""What `Smoothed` returns for a batch: arrays beside the votes they were derived from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sparsecert.bounds.interval import Lead
from sparsecert.certificates import Certificate
from sparsecert.certificates.target import Averted, Flagged, certify_averted, certify_flagged
from sparsecert.certificates.top_k import TopK, certify_top_k
from sparsecert.counts import Counts, Int64
from sparsecert.errors import InputError
from sparsecert.schemes import Scheme

ABSTAINED = -1  # in integer arrays only; `abstained` says it as a boolean


@dataclass(frozen=True, eq=False)
class Predictions:
    """For each input the class g(x), wrong with probability at most alpha, or an abstention."""

    votes: Counts
    answers: tuple[int | None, ...]
    n: int
    alpha: float
    seed: int

    def __repr__(self) -> str:
        return f"Predictions(labels={self.labels}, n={self.n}, alpha={self.alpha})"

    @property
    def labels(self) -> Int64:
        """int64[b]: the class, -1 where abstained."""
        return np.array([ABSTAINED if answer is None else answer for answer in self.answers], dtype=np.int64)

    @property
    def abstained(self) -> npt.NDArray[np.bool_]:
        """bool[b]: the two leading classes could not be told apart."""
        return np.array([answer is None for answer in self.answers], dtype=np.bool_)

    @property
    def counts(self) -> Int64:
        """int64[b, classes]: votes of the n ablated copies."""
        return self.votes.votes

    @property
    def invalid(self) -> Int64:
        """int64[b]: copies whose scores were not finite; they voted for nobody."""
        return self.votes.invalid


@dataclass(frozen=True, eq=False)
class Certifications:
    """For each input a certificate that holds with probability at least 1 - alpha, and the votes behind it.

    Iterating gives the `Certificate` of each input. n0 and n are the samples of each, or the most where they were taken
    sequentially; `samples` is what each took. `answers` says "yes", "no" or "undecided" where `at_least` was asked.
    """

    certificates: tuple[Certificate, ...]
    selection: Counts
    estimation: Counts
    n0: int
    n: int
    alpha: float
    seed: int
    bound: str
    samples: Int64
    answers: tuple[str | None, ...] = ()
    scheme: Scheme | None = None

    def __len__(self) -> int:
        return len(self.certificates)

    def __repr__(self) -> str:
        return f"Certifications(labels={self.labels}, radii={self.radii}, n={self.n}, alpha={self.alpha})"

    def __getitem__(self, row: int) -> Certificate:
        return self.certificates[row]

    @property
    def labels(self) -> Int64:
        """int64[b]: the certified class, -1 where abstained."""
        return np.array([ABSTAINED if c.label is None else c.label for c in self.certificates], dtype=np.int64)

    @property
    def radii(self) -> Int64:
        """int64[b]: no change of so many units alters the answer; -1 where abstained (not even radius 0)."""
        return np.array([ABSTAINED if c.radius is None else c.radius for c in self.certificates], dtype=np.int64)

    @property
    def abstained(self) -> npt.NDArray[np.bool_]:
        """bool[b]: nothing could be certified."""
        return np.array([c.radius is None for c in self.certificates], dtype=np.bool_)

    @property
    def selected(self) -> Int64:
        """int64[b]: the class the selection votes chose, certified or not."""
        return np.array([c.interval.label for c in self.certificates], dtype=np.int64)

    @property
    def p_lower(self) -> npt.NDArray[np.float64]:
        """float64[b]: the selected class has at least this probability; NaN where only the lead is bounded."""
        return np.array([_side(c, "p_lower") for c in self.certificates], dtype=np.float64)

    @property
    def p_upper(self) -> npt.NDArray[np.float64]:
        """float64[b]: every other class has at most this probability; NaN where only the lead is bounded."""
        return np.array([_side(c, "p_upper") for c in self.certificates], dtype=np.float64)

    def top(self, k: int, labels: Sequence[int] | None = None) -> tuple[TopK, ...]:
        """From the same votes: how many units may be altered with the label of each input among its k leading ones.

        The label is the selected class, or of `labels`: one for each input, known before the votes.
        """
        scheme, asked = self._drawn(), self._each("labels", labels)
        return tuple(
            certify_top_k(self.selection[row], self.estimation[row], scheme, self.alpha, k, label)
            for row, label in enumerate(asked)
        )

    def averted(self, target: int) -> tuple[Averted, ...]:
        """From the same votes: how many units may be altered without the answer becoming `target`."""
        scheme = self._drawn()
        return tuple(
            certify_averted(self.selection[row], self.estimation[row], scheme, self.alpha, target)
            for row in range(len(self))
        )

    def flagged(self, label: int, threshold: float = 0.5) -> tuple[Flagged, ...]:
        """From the same votes: how many units may be altered with p_label above the threshold (asymmetric use)."""
        scheme = self._drawn()
        return tuple(
            certify_flagged(self.estimation[row], scheme, self.alpha, label, threshold) for row in range(len(self))
        )

    def _drawn(self) -> Scheme:
        """The scheme of votes that are a fixed number for each input."""
        if self.scheme is None or any(isinstance(c.interval, Lead) for c in self.certificates):
            raise InputError("only votes of a fixed number can be certified in another way; leave sampling out")
        return self.scheme

    def _each(self, name: str, values: Sequence[int] | None) -> Sequence[int | None]:
        """One for each input."""
        if values is not None and len(values) != len(self):
            raise InputError(f"{name} must be one for each of the {len(self)} inputs, got {len(values)}")
        return [None] * len(self) if values is None else [int(value) for value in values]

    @property
    def counts(self) -> Int64:
        """int64[b, classes]: the estimation votes."""
        return self.estimation.votes

    @property
    def invalid(self) -> Int64:
        """int64[b]: copies, of selection and estimation, whose scores were not finite; they voted for nobody."""
        return self.selection.invalid + self.estimation.invalid


def _side(certificate: Certificate, name: str) -> float:
    """One side of the interval; NaN where votes taken sequentially bound the lead alone."""
    return float(getattr(certificate.interval, name, float("nan")))
