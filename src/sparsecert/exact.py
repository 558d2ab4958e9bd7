"""The vote of a fixed set of masks: every copy is shown to the model, and what is certified holds always."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sparsecert.certificates.damage import Damage
from sparsecert.certificates.plurality import Exact, firsts, plurality, tallied
from sparsecert.certificates.run_off import run_off
from sparsecert.errors import InputError
from sparsecert.schemes import FixedMasks, Scheme

Int64 = npt.NDArray[np.int64]
RULES = "plurality", "run-off"


@dataclass(frozen=True, eq=False)
class ExactCertifications:
    """For each input the winner of the vote, and how large a change surely leaves it the winner. There is no alpha.

    ranks: int16[b, masks, classes], how each copy ranks the classes; all 0 for one whose scores were not finite.
    """

    certificates: tuple[Exact, ...]
    ranks: npt.NDArray[np.int16]
    rule: str

    def __len__(self) -> int:
        return len(self.certificates)

    def __getitem__(self, row: int) -> Exact:
        return self.certificates[row]

    def __iter__(self) -> Iterator[Exact]:
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


def certified(ranks: npt.NDArray[np.int16], rule: str, damage: Damage) -> tuple[Exact, ...]:
    """The certificate of each input from how its copies rank the classes; no model needed."""
    certify = rule_named(rule)
    return tuple(certify(one, damage) for one in ranks)


def rule_named(name: str) -> Callable[[npt.NDArray[np.int16], Damage], Exact]:
    """How the votes of a set of masks elect a class, with the certificate of that."""
    if name == "plurality":
        return lambda ranks, damage: plurality(firsts(ranks), ranks.shape[1], damage)
    if name == "run-off":
        return lambda ranks, damage: run_off(ranks.astype(np.int64), damage)
    raise InputError(f"rule must be one of {', '.join(RULES)}, got {name!r}")


def fixed(scheme: Scheme) -> FixedMasks:
    """The scheme, if its masks are a fixed set."""
    if not isinstance(scheme, FixedMasks):
        raise InputError(
            f"{scheme} draws its masks at random; an exact certificate needs a fixed set, such as Lattice or Partition"
        )
    return scheme
