"""Random partitions of the units into masks, one per round."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sparsecert.errors import InputError, check_int
from sparsecert.registry import SCHEMES, Option
from sparsecert.schemes.fixed_masks import PARTITIONS, PARTS, FixedMasks, parts_table
from sparsecert.schemes.scheme import Scheme

MOST_UNITS = (1 << 31) - 1
SEED = Option("--scheme-seed", int, "Decides which pixel goes where (default: 0).", "seed", least=0, short="-seed{}")
NEIGHBOURS = Option("--contiguous", bool, "Masks are runs of neighbouring units.", short="-contiguous")


@SCHEMES.register("partition")
@dataclass(frozen=True)
class Partition(FixedMasks):
    """`parts` disjoint masks that cover all units, their sizes equal or one apart.

    Several `rounds` are as many independent partitions: every unit is in `rounds` masks. They depend on `seed` alone,
    by SHA-256, so on no library's generator. `contiguous` parts are runs of neighbours instead, so there is one round.

    With units None it is open: `for_units(n)` binds it to inputs of n units, with a part for each unit where there are
    fewer units than `parts`. Position and number of units alone decide the part of a unit: both are public, and
    certificates hold for changes that leave the number as it is.
    """

    options: ClassVar[tuple[Option, ...]] = (PARTS, PARTITIONS, SEED, NEIGHBOURS)
    words: ClassVar[dict[str, str]] = {**FixedMasks.words, "seed": "seed {seed}", "contiguous": "contiguous"}

    units: int | None  # type: ignore[assignment]
    parts: int
    rounds: int = 1
    seed: int = 0
    contiguous: bool = False

    def __post_init__(self) -> None:
        most, name = MOST_UNITS, "2**31 - 1"
        if self.units is not None:
            object.__setattr__(self, "units", check_int("units", self.units, 1, MOST_UNITS, "2**31 - 1"))
            most, name = self.units, f"units ({self.units})"
        object.__setattr__(self, "parts", check_int("parts", self.parts, 1, most, name))
        object.__setattr__(self, "rounds", check_int("rounds", self.rounds, 1, 1 << 16))
        object.__setattr__(self, "seed", check_int("seed", self.seed, 0, (1 << 64) - 1, "2**64 - 1"))
        if self.contiguous and (self.rounds, self.seed) != (1, 0):
            raise InputError("contiguous parts have no seed and one round; leave out rounds and seed")

    def config(self) -> dict[str, Any]:
        found = super().config()
        return found if self.contiguous else {name: found[name] for name in found if name != "contiguous"}

    def for_units(self, units: int) -> Scheme:
        return super().for_units(units) if self.units is not None else _bound(self, units)

    @property
    def count(self) -> int:
        return self.rounds * self.parts

    def _table(self) -> npt.NDArray[np.bool_]:
        if self.units is None:
            raise InputError(f"{self} is for inputs of any number of units; bind it first: for_units(n)")
        return np.concatenate([parts_table(self._dealt(turn, self.units), self.parts) for turn in range(self.rounds)])

    def _dealt(self, turn: int, units: int) -> npt.NDArray[np.int64]:
        """int64[units]: the part of each unit in a round; units are dealt out in the order of their hashes."""
        if self.contiguous:
            runs: npt.NDArray[np.int64] = np.arange(units) * self.parts // units
            return runs
        order = sorted(range(units), key=lambda unit: _hash(self.seed, turn, unit))
        dealt = np.empty(units, dtype=np.int64)
        dealt[order] = np.arange(units) % self.parts
        return dealt


def _hash(*numbers: int) -> bytes:
    return hashlib.sha256("/".join(map(str, numbers)).encode()).digest()


@lru_cache(maxsize=4096)
def _bound(scheme: Partition, units: int) -> Partition:
    """Cached, and with it the masks of each length."""
    return replace(scheme, units=units, parts=min(scheme.parts, units))
