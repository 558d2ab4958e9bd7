"""The vote of a fixed set of masks: every copy is shown to the model, and what is certified holds always."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sparsecert.certificates.adversary import Adversary, PerturbedUnits
from sparsecert.certificates.enumerated import EnumeratedUnits
from sparsecert.certificates.patches import PerturbedPatch
from sparsecert.certificates.plurality import ExactCertificate, Ranks, firsts, tallied
from sparsecert.errors import InputError
from sparsecert.registry import RULES
from sparsecert.schemes import FixedMasks, Scheme

Int64 = npt.NDArray[np.int64]
PIXELS, PATCHES = "pixels", "patches"  # what an attacker alters: some pixels anywhere, or all of one square
AGAINST = PIXELS, PATCHES
MOST_SECONDS = 3_600.0


@dataclass(frozen=True, eq=False)
class ExactCertifications:
    """For each input the winner of the vote, and how large a change surely leaves it the winner. There is no alpha.

    ranks: int16[b, masks, classes], how each copy ranks the classes; all 0 for one whose scores were not finite.
    """

    certificates: tuple[ExactCertificate, ...]
    ranks: npt.NDArray[np.int16]
    rule: str

    def __len__(self) -> int:
        return len(self.certificates)

    def __getitem__(self, row: int) -> ExactCertificate:
        return self.certificates[row]

    def __iter__(self) -> Iterator[ExactCertificate]:
        return iter(self.certificates)

    def __repr__(self) -> str:
        return f"ExactCertifications(labels={self.labels}, radii={self.radii}, rule={self.rule!r})"

    @property
    def labels(self) -> Int64:
        """int64[b]: the winner; there is always one."""
        return np.array([certificate.label for certificate in self.certificates], dtype=np.int64)

    @property
    def radii(self) -> Int64:
        """int64[b]: no change of so many units (or patch of that side) alters the winner."""
        return np.array([certificate.radius for certificate in self.certificates], dtype=np.int64)

    @property
    def counts(self) -> Int64:
        """int64[b, classes]: the votes of the first round."""
        return np.stack([tallied(firsts(ranks), self.ranks.shape[2]) for ranks in self.ranks])


@dataclass(frozen=True)
class Exact:
    """How the vote of a fixed set of masks is certified: three things that a record's votes do not depend on.

    `rule` elects the class. The radius is a number of altered pixels, or `against` patches the side of one; None is
    what the scheme is for: patches for blocks and bands, else pixels. `seconds`: see `PerturbedUnits`.
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

    def damages(self, scheme: FixedMasks) -> str:
        """What is altered: pixels or patches."""
        return self.against or scheme.against

    def adversary(self, scheme: FixedMasks) -> Adversary:
        """What an attack costs at most; refuses patches where it is not known what is beside what."""
        if self.damages(scheme) == PIXELS:
            return EnumeratedUnits(scheme.table) if scheme.few_units else PerturbedUnits(scheme.table, self.seconds)
        if self.seconds:
            raise InputError("seconds is for altered pixels: every position of a patch is looked at, leave it out")
        if scheme.sides is None:
            raise InputError(f"{scheme} does not know which pixels make a patch; use Lattice, Blocks or Bands for that")
        return PerturbedPatch(scheme.table, *scheme.sides)


def check_damage(adversary: Adversary, scheme: FixedMasks, sides: tuple[int, int] | None) -> None:
    """Refuses the damage of other masks than the scheme's, and patches of an image that is not the inputs'.

    `sides` are the height and width of the image that the inputs' units form, None where they form none.
    """
    masks = getattr(adversary, "masks", scheme.table)
    if masks is not scheme.table and not np.array_equal(masks, scheme.table):
        raise InputError(f"damage must be that of the masks of {scheme}; make it of scheme.table")
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
