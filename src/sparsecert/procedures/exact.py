"""All masks of a fixed set vote: certificates are deterministic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsecert.certificates.adversary import Adversary, PerturbedUnits
from sparsecert.certificates.enumerated import EnumeratedUnits
from sparsecert.certificates.patches import PerturbedPatch
from sparsecert.certificates.plurality import ExactCertificate, first_choices
from sparsecert.counts import Counts, Int16, Int64
from sparsecert.errors import InputError
from sparsecert.procedures.pipelining import Steps
from sparsecert.procedures.procedure import Procedure, warn_of_invalid
from sparsecert.registry import RULES
from sparsecert.results import Certifications, Predictions
from sparsecert.schemes import FixedMasks, Scheme

if TYPE_CHECKING:
    from sparsecert.votes.copies import Copies

PIXELS, FEATURES, WORDS, PATCHES = "pixels", "features", "words", "patches"  # units anywhere, or all of one square
AGAINST = PIXELS, FEATURES, WORDS, PATCHES
MOST_SECONDS = 3_600.0
AT_ONCE = 2_048  # inputs that are voted on, and whose elections are worked out, together


@dataclass(frozen=True)
class Exact(Procedure):
    """g is the vote of all masks of a fixed set, so its certificate is deterministic: there is no alpha.

    `rule` elects the class: "pairwise" the one that beats each other one, "run-off" between the two leading ones, or
    "plurality". The radius is a number of perturbed units, or, `against` "patches", the side of a square patch. None:
    the scheme's own. Where masks overlap, `seconds` limits a linear program per input that may enlarge its radius. The
    proof assumes that the model scores a copy the same in every batch. A record's votes depend on none of the three.
    """

    rule: str | None = None
    against: str | None = None
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.rule is not None:
            RULES[self.rule]  # refuses a name that is none
        if self.against not in (None, *AGAINST):
            raise InputError(f"against must be one of {', '.join(AGAINST)}, got {self.against!r}")
        if not 0 <= self.seconds <= MOST_SECONDS:
            raise InputError(f"seconds must be between 0 and {MOST_SECONDS:g}, got {self.seconds}")

    def elects_by(self, scheme: Scheme) -> str:
        return self.rule or require_fixed_masks(scheme).rule

    def perturbs(self, scheme: Scheme) -> str:
        """What the adversary perturbs: units anywhere, or a patch."""
        return self.against or require_fixed_masks(scheme).against

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
        self.adversary(require_fixed_masks(scheme.some_bound()))

    def first_votes(self, scheme: Scheme) -> int:
        return require_fixed_masks(scheme).count

    def most_votes(self, scheme: Scheme) -> int:
        return self.first_votes(scheme)

    def header_fields(self, scheme: Scheme, alpha: float | None, seed: int) -> dict[str, Any]:
        settings = {"against": self.perturbs(scheme), "seconds": float(self.seconds)}
        return {**self.prediction_header_fields(scheme, alpha, seed), **settings}

    def prediction_header_fields(self, scheme: Scheme, alpha: float | None, seed: int) -> dict[str, Any]:
        return {"rule": self.elects_by(scheme), "masks": self.first_votes(scheme)}

    def certify(self, copies: Copies, alpha: float | None) -> Steps[Certifications]:
        scheme = require_fixed_masks(copies.voter.scheme)
        adversary = _adversary(self, scheme)
        check_geometry(adversary, copies.voter.encoding.units(copies.inputs.shape[1:]).sides)
        rule = self.elects_by(scheme)
        ranks, votes, elected = yield from _vote(copies, lambda ranks: np.stack(elect(ranks, rule, adversary)))
        pairs = [*zip(*elected.tolist(), strict=True)]
        known = {pair: ExactCertificate(*pair) for pair in {*pairs}}  # few differ, and most of the time is making them
        certificates = tuple(known[pair] for pair in pairs)
        samples = np.full(len(ranks), ranks.shape[1])
        return Certifications(certificates, self, None, None, votes, samples, ranks=ranks)

    def predict(self, copies: Copies, alpha: float | None) -> Steps[Predictions]:
        rule = RULES[self.elects_by(copies.voter.scheme)]
        ranks, votes, winners = yield from _vote(copies, rule.winners)
        return Predictions(votes, tuple(winners.tolist()), ranks.shape[1], None, None, ranks)


@lru_cache(maxsize=128)
def _adversary(procedure: Exact, scheme: FixedMasks) -> Adversary:
    """Shared by all inputs: it caches what it computes of the masks."""
    return procedure.adversary(scheme)


def _vote(copies: Copies, elected: Callable[[Int16], Int64]) -> Steps[tuple[Int16, Counts, Int64]]:
    """int16[b, masks, classes]: how each input's copy by each mask ranks the classes; the votes for first choices; and
    int64[..., b]: what `elected` makes of the ranks.

    The host holds the elections of some inputs while the device votes on the next ones.
    """
    masks = len(require_fixed_masks(copies.voter.scheme).table)
    ranks = np.empty((len(copies), masks, copies.voter.classes), dtype=np.int16)
    begun: list[tuple[slice, Callable[[], Int16]]] = []
    done: list[tuple[Counts, Int64]] = []

    def finish_first() -> None:
        rows, ranked = begun.pop(0)
        ranks[rows] = ranked()
        done.append((first_choices(ranks[rows]), elected(ranks[rows])))

    for rows, part in copies.split(AT_ONCE):
        begun.append((rows, part.begin_ranks(masks)))
        yield
        if len(begun) > 1:
            finish_first()
    finish_first()
    votes, results = zip(*done, strict=True)
    counts = Counts.joined(votes)
    warn_of_invalid(int(counts.invalid.sum()), len(copies) * masks)
    return ranks, counts, np.concatenate(results, axis=-1)


def check_geometry(adversary: Adversary, sides: tuple[int, int] | None) -> None:
    """Refuses patches of an image of another size than `sides`, the height and width that the inputs' units form."""
    if isinstance(adversary, PerturbedPatch) and (adversary.height, adversary.width) != sides:
        found = "form no image" if sides is None else f"form an image of {sides[0]} x {sides[1]}"
        raise InputError(
            f"patches of a {adversary.height} x {adversary.width} image (height x width) were asked for, but the units "
            f"of these inputs {found}; give the scheme the sides of the inputs"
        )


def elect(ranks: Int16, rule: str, adversary: Adversary) -> tuple[Int64, Int64]:
    """int64[b]: the winner and the radius of each input, from its copies' rankings alone; some inputs at a time."""
    parts = [RULES[rule].certify(ranks[at : at + AT_ONCE], adversary) for at in range(0, len(ranks), AT_ONCE)]
    labels, radii = zip(*parts, strict=True)
    return np.concatenate(labels), np.concatenate(radii)


def require_fixed_masks(scheme: Scheme) -> FixedMasks:
    """The scheme, if its masks are a fixed set."""
    if not isinstance(scheme, FixedMasks):
        raise InputError(
            f"{scheme} draws its masks at random; an exact certificate needs a fixed set, such as Lattice or Partition"
        )
    return scheme
