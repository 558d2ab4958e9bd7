"""All masks of a fixed set vote: nothing is sampled, and what is certified holds always."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from sparsecert.progress import OnProgress
from sparsecert.registry import RULES
from sparsecert.results import Certifications, Predictions
from sparsecert.schemes import FixedMasks, Scheme

if TYPE_CHECKING:
    import torch

    from sparsecert.votes.voter import Voter

PIXELS, PATCHES = "pixels", "patches"  # what an attacker alters: some pixels anywhere, or all of one square
AGAINST = PIXELS, PATCHES
MOST_SECONDS = 3_600.0


@dataclass(frozen=True)
class Exact(Procedure):
    """g is the vote of exactly the masks of a fixed set, so that its certificate is deterministic: there is no alpha.

    `rule` elects the class: "plurality", or "run-off" between the two leading ones. The radius is a number of perturbed
    units, or `against` "patches" the side of a square patch; None is what the scheme is for. Where masks overlap,
    `seconds` is the time for a linear program that may enlarge each radius. One thing is assumed beyond what is proved:
    that the model gives a copy the same scores whatever batch it is in. A record's votes depend on none of the three.
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
        """What an attacker perturbs: pixels or patches."""
        return self.against or scheme.against

    def adversary(self, scheme: FixedMasks) -> Adversary:
        """What an attack costs at most; refuses patches where it is not known what is beside what."""
        if self.perturbs(scheme) == PIXELS:
            return EnumeratedUnits(scheme.table) if scheme.few_units else PerturbedUnits(scheme.table, self.seconds)
        if self.seconds:
            raise InputError("seconds is for altered pixels: every position of a patch is looked at, leave it out")
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

    def certify(
        self,
        voter: Voter,
        inputs: torch.Tensor,
        examples: Sequence[int],
        alpha: float | None,
        seed: int,
        on_progress: OnProgress,
    ) -> Steps[Certifications]:
        adversary = _adversary(self, fixed(voter.scheme))
        check_geometry(adversary, voter.encoding.sides(inputs.shape[1:]))
        ranks = yield from _ranks(voter, inputs, on_progress)
        certificates = certified(ranks, self.rule, adversary)
        samples = np.full(len(ranks), ranks.shape[1])
        return Certifications(certificates, self, None, None, first_choices(ranks), samples, ranks=ranks)

    def predict(
        self,
        voter: Voter,
        inputs: torch.Tensor,
        examples: Sequence[int],
        alpha: float | None,
        seed: int,
        on_progress: OnProgress,
    ) -> Steps[Predictions]:
        ranks = yield from _ranks(voter, inputs, on_progress)
        answers = tuple(elected(one, self.rule) for one in ranks)
        return Predictions(first_choices(ranks), answers, ranks.shape[1], None, None, ranks)


@lru_cache(maxsize=4)
def _adversary(procedure: Exact, scheme: FixedMasks) -> Adversary:
    """Made once for all inputs: it remembers what it computes of the masks."""
    return procedure.adversary(scheme)


def _ranks(voter: Voter, inputs: torch.Tensor, on_progress: OnProgress) -> Steps[npt.NDArray[np.int16]]:
    """int16[b, masks, classes]: how each input's copy by each mask ranks the classes; 0 is the first."""
    begun = voter.begin_ranks(inputs, len(fixed(voter.scheme).table), on_progress)
    yield
    ranks: npt.NDArray[np.int16] = begun().numpy()
    warn_of_invalid(int((ranks.max(axis=2) == 0).sum()), ranks.shape[0] * ranks.shape[1])
    return ranks


def first_choices(ranks: npt.NDArray[np.int16]) -> Counts:
    """The votes of the first round, those without an opinion counted as invalid."""
    votes = np.stack([tallied(firsts(one), ranks.shape[2]) for one in ranks])
    return Counts(votes, ranks.shape[1] - votes.sum(axis=1))


def check_geometry(adversary: Adversary, sides: tuple[int, int] | None) -> None:
    """Refuses patches of an image that is not the inputs'; `sides` are the height and width that their units form."""
    if isinstance(adversary, PerturbedPatch) and (adversary.height, adversary.width) != sides:
        found = "form no image" if sides is None else f"form an image of {sides[0]} x {sides[1]}"
        raise InputError(
            f"patches of a {adversary.height} x {adversary.width} image (height x width) were asked for, but the units "
            f"of these inputs {found}; give the scheme the sides of the inputs"
        )


def certified(ranks: npt.NDArray[np.int16], rule: str, adversary: Adversary) -> tuple[ExactCertificate, ...]:
    """The certificate of each input from how its copies rank the classes; no model needed."""
    certify = rule_named(rule)
    return tuple(certify(one, adversary) for one in ranks)


def rule_named(name: str) -> Callable[[Ranks, Adversary], ExactCertificate]:
    """How the votes of a set of masks elect a class, with the certificate of that."""
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
