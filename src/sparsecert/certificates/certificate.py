"""The certificate, and how a theorem finds its radius."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from sparsecert.bounds import corrected_alpha
from sparsecert.bounds.interval import Bound, Interval, Lead
from sparsecert.counts import Counts, Int64, Tally
from sparsecert.errors import InputError
from sparsecert.schemes import DELTA_BITS, Scheme

ELECTED = {  # g(x) by each rule
    "plurality": "the class with most votes",
    "pairwise": "the class that beats every other one",
    "run-off": "the winner between the two leading classes",
}


@dataclass(frozen=True)
class Certificate:
    """With probability at least 1 - alpha, g(x') = interval.label for every x' at most `radius` units away.

    `radius` None means that nothing is certified, not even the answer at x itself. Radius 0 certifies
    the answer at x and no perturbation. Neither says anything about the true label.
    """

    interval: Interval | Lead
    radius: int | None

    @property
    def label(self) -> int | None:
        """The certified class; None if nothing is certified."""
        return None if self.radius is None else self.interval.label


class Theorem(Protocol):
    """Turns an interval into a radius."""

    def __call__(self, interval: Interval, scheme: Scheme) -> int | None:
        """The largest certified number of perturbed units; None if not even 0 is certified."""


class Compared(Protocol):
    """For each input of a batch, the votes for its label and those for its rival, int64[b] each.

    The rival is the strongest one, with every copy that might be its own; or, where `rivals` names one class for each
    input, that class alone.
    """

    def __call__(self, votes: Counts, labels: Int64, rivals: Int64 | None = None) -> tuple[Int64, Int64]: ...


@dataclass(frozen=True)
class Method:
    """A bound and the theorem that turns its interval into a radius.

    by_pairs: whether copies rank the classes, and the votes are counted against each class (`Tally.above`).
    compared: what the theorem compares when sampling is sequential, for the proof of `certify_anytime`; None for a
    theorem that it does not hold for.
    """

    name: str
    bound: Bound
    theorem: Theorem
    theorem_name: str
    by_pairs: bool = False
    compared: Compared | None = None

    @property
    def rule(self) -> str:
        """How votes elect the class g(x) that is certified; see `ELECTED`."""
        return "pairwise" if self.by_pairs else "plurality"

    def compared_anytime(self) -> Compared:
        """`compared`, or a refusal of sequential sampling."""
        if self.compared is None:
            raise InputError(f"bound {self.name} has no proof for sequential sampling; take a fixed number of samples")
        return self.compared

    def theorem_for(self, scheme: Scheme) -> tuple[Theorem, str]:
        """The sharpest theorem that there is for the scheme, and its name."""
        return scheme.sharper_theorem(self.name) or (self.theorem, self.theorem_name)

    def certify(self, selection: Tally, estimation: Tally, scheme: Scheme, alpha: float | Fraction) -> Certificate:
        """The certificate of one input from its votes: exact arithmetic on integers, no model needed."""
        interval = self.bound(selection, estimation, corrected_alpha(alpha, scheme, estimation.total))
        theorem, _ = self.theorem_for(scheme)
        return Certificate(interval, theorem(interval, scheme))


def largest_rho(scheme: Scheme, margin: Fraction) -> int | None:
    """The largest rho with delta(rho) < margin, for margin <= 1/2; None if there is none, that is if margin <= 0.

    delta grows with rho, and scheme.deltas holds upper bounds on it as integers, so the comparison is exact: an integer
    is below the rational margin * 2**128 if and only if it is below its ceiling.
    """
    ceiling = -(-(margin.numerator << DELTA_BITS) // margin.denominator)
    below = bisect_left(scheme.deltas, ceiling)
    return below - 1 if below else None


def farthest_rho(scheme: Scheme, margin: Fraction) -> int | None:
    """The largest rho, up to all units, with delta(rho) < margin, for any margin; None if margin <= 0.

    `scheme.deltas` ends at 1/2, so this uses delta itself, which grows with rho from delta(0) = 0.
    """
    below = bisect_left(range(scheme.units + 1), margin, key=scheme.delta)
    return below - 1 if below else None
