"""Random partitions of the units into masks, one per round."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from sparsecert.errors import check_int
from sparsecert.registry import SCHEMES, Option
from sparsecert.schemes.fixed_masks import PARTITIONS, PARTS, FixedMasks, parts_table

MOST_UNITS = (1 << 31) - 1
SEED = Option("--scheme-seed", int, "Decides which pixel goes where (default: 0).", "seed", least=0, short="-seed{}")


@SCHEMES.register("partition")
@dataclass(frozen=True)
class Partition(FixedMasks):
    """`parts` disjoint masks that cover all units, their sizes equal or one apart.

    Several `rounds` are as many independent partitions: every unit is in `rounds` masks. They depend on `seed` alone,
    by SHA-256, so on no library's generator.
    """

    options: ClassVar[tuple[Option, ...]] = (PARTS, PARTITIONS, SEED)
    words: ClassVar[dict[str, str]] = {**FixedMasks.words, "seed": "seed {seed}"}

    units: int
    parts: int
    rounds: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "units", check_int("units", self.units, 1, MOST_UNITS, "2**31 - 1"))
        object.__setattr__(self, "parts", check_int("parts", self.parts, 1, self.units, f"units ({self.units})"))
        object.__setattr__(self, "rounds", check_int("rounds", self.rounds, 1, 1 << 16))
        object.__setattr__(self, "seed", check_int("seed", self.seed, 0, (1 << 64) - 1, "2**64 - 1"))

    def _table(self) -> npt.NDArray[np.bool_]:
        return np.concatenate([parts_table(self._dealt(turn), self.parts) for turn in range(self.rounds)])

    def _dealt(self, turn: int) -> npt.NDArray[np.int64]:
        """int64[units]: the part of each unit in a round; units are dealt out in the order of their hashes."""
        order = sorted(range(self.units), key=lambda unit: _hash(self.seed, turn, unit))
        dealt = np.empty(self.units, dtype=np.int64)
        dealt[order] = np.arange(self.units) % self.parts
        return dealt


def _hash(*numbers: int) -> bytes:
    return hashlib.sha256("/".join(map(str, numbers)).encode()).digest()
