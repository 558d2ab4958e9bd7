"""All masks of a fixed set vote: certificates are deterministic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sparsecert.certificates.adversary import Adversary, PerturbedUnits
from sparsecert.certificates.enumerated import EnumeratedUnits
from sparsecert.certificates.patches import PerturbedPatch
from sparsecert.certificates.plurality import ExactCertificate, Ranks, firsts, tallied
from sparsecert.counts import Counts
from sparsecert.errors import InputError
from sparsecert.procedures.pipelining import Steps
from sparsecert.procedures.procedure import Procedure, warn_of_invalid
from sparsecert.registry import RULES
from sparsecert.results import Certifications, Predictions
from sparsecert.schemes import FixedMasks, Scheme

if TYPE_CHECKING:
    from sparsecert.votes.copies import Copies

PIXELS, FEATURES, PATCHES = "pixels", "features", "patches"  # perturbed: some units anywhere, or all of one square
AGAINST = PIXELS, FEATURES, PATCHES
MOST_SECONDS = 3_600.0


@dataclass(frozen=True)
class Exact(Procedure):
    """g is the vote of all masks of a fixed set, so its certificate is deterministic: there is no alpha.

    `rule` elects the class: "plurality", or "run-off" between the two leading ones. The radius is a number of perturbed
    units, or, `against` "patches", the side of a square patch; None: what the scheme is for. Where masks overlap,
    `seconds` limits a linear program per input that may enlarge its radius. The proof assumes that the model scores a
    copy the same in every batch. A record's votes depend on none of the three.
    """

    rule: str = "run-off"
    against: str | None = None
    seconds: float = 0.0

    def __post_init__(self) -> None:
        rule_named(self.rule)
        if self.against not in (None, *AGAINST):
            raise InputError(f"against must be one of {', '.join(AGAINST)}, got {self.against!r}")
        if not 0 <= self.seconds <= MOST_SECONDS:
            raise InputError(f"seconds must be between 0 and {MOST_SECONDS:g}, got {self.seconds}")

    def perturbs(self, scheme: FixedMasks) -> str:
        """What the adversary perturbs: units anywhere, or a patch."""
        return self.against or scheme.against

    def adversary(self, scheme: FixedMasks) -> Adversary:
        """The bound on what an adversary can do to the votes; refuses patches where the units form no image."""
        if self.perturbs(scheme) != PATCHES:
            return EnumeratedUnits(scheme.table) if scheme.few_units else PerturbedUnits(scheme.table, self.seconds)
        if self.seconds:
            raise InputError("seconds is for perturbed pixels: every position of a patch is looked at, leave it out")
        if scheme.sides is None:
            raise InputError(f"{scheme} does not know which pixels make a patch; use Lattice, Blocks or Bands for that")
        return PerturbedPatch(scheme.table, *scheme.sides)

    def level(self, alpha: float | None) -> None:
        if alpha is not None:
            raise InputError(f"alpha is for masks drawn at random, Exact certificates hold always; got alpha={alpha}")

    def check(self, scheme: Scheme, alpha: float | None, seed: int) -> None:
        self.adversary(fixed(scheme))

    def first_votes(self, scheme: Scheme) -> int:
        return len(fixed(scheme).table)

    def most_votes(self, scheme: Scheme) -> int:
        return self.first_votes(scheme)

    def facts(self, scheme: Scheme, alpha: float | None, seed: int) -> dict[str, Any]:
        settings = {"rule": self.rule, "against": self.perturbs(fixed(scheme)), "seconds": float(self.seconds)}
        return {**settings, "masks": self.first_votes(scheme)}

    def prediction_facts(self, scheme: Scheme, alpha: float | None, seed: int) -> dict[str, Any]:
        return {"rule": self.rule, "masks": self.first_votes(scheme)}

    def certify(self, copies: Copies, alpha: float | None) -> Steps[Certifications]:
        adversary = _adversary(self, fixed(copies.voter.scheme))
        check_geometry(adversary, copies.voter.encoding.sides(copies.inputs.shape[1:]))
        ranks = yield from _ranks(copies)
        certificates = certified(ranks, self.rule, adversary)
        samples = np.full(len(ranks), ranks.shape[1])
        return Certifications(certificates, self, None, None, first_choices(ranks), samples, ranks=ranks)

    def predict(self, copies: Copies, alpha: float | None) -> Steps[Predictions]:
        ranks = yield from _ranks(copies)
        answers = tuple(elected(one, self.rule) for one in ranks)
        return Predictions(first_choices(ranks), answers, ranks.shape[1], None, None, ranks)


@lru_cache(maxsize=4)
def _adversary(procedure: Exact, scheme: FixedMasks) -> Adversary:
    """Shared by all inputs: it caches what it computes of the masks."""
    return procedure.adversary(scheme)


def _ranks(copies: Copies) -> Steps[npt.NDArray[np.int16]]:
    """int16[b, masks, classes]: how each input's copy by each mask ranks the classes; 0 is the first."""
    ranked = copies.begin_ranks(len(fixed(copies.voter.scheme).table))
    yield
    ranks: npt.NDArray[np.int16] = ranked().numpy()
    warn_of_invalid(int((ranks.max(axis=2) == 0).sum()), ranks.shape[0] * ranks.shape[1])
    return ranks


def first_choices(ranks: npt.NDArray[np.int16]) -> Counts:
    """The first-choice votes; copies without an opinion count as invalid."""
    votes = np.stack([tallied(firsts(one), ranks.shape[2]) for one in ranks])
    return Counts(votes, ranks.shape[1] - votes.sum(axis=1))


def check_geometry(adversary: Adversary, sides: tuple[int, int] | None) -> None:
    """Refuses patches of an image of another size than `sides`, the height and width that the inputs' units form."""
    if isinstance(adversary, PerturbedPatch) and (adversary.height, adversary.width) != sides:
        found = "form no image" if sides is None else f"form an image of {sides[0]} x {sides[1]}"
        raise InputError(
            f"patches of a {adversary.height} x {adversary.width} image (height x width) were asked for, but the units "
            f"of these inputs {found}; give the scheme the sides of the inputs"
        )


def certified(ranks: npt.NDArray[np.int16], rule: str, adversary: Adversary) -> tuple[ExactCertificate, ...]:
    """The certificate of each input, from its copies' rankings alone."""
    certify = rule_named(rule)
    return tuple(certify(one, adversary) for one in ranks)


def rule_named(name: str) -> Callable[[Ranks, Adversary], ExactCertificate]:
    """The function that certifies the winner by this rule."""
    return RULES[name].certify


def elected(ranks: npt.NDArray[np.int16], rule: str) -> int:
    """The winner of one input's vote."""
    return RULES[rule].winner(ranks)


def fixed(scheme: Scheme) -> FixedMasks:
    """The scheme, if its masks are a fixed set."""
    if not isinstance(scheme, FixedMasks):
        raise InputError(
            f"{scheme} draws its masks at random; an exact certificate needs a fixed set, such as Lattice or Partition"
        )
    return scheme
