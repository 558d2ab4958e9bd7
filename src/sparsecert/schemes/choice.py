"""A scheme by name, before it is known how large the images are."""

from __future__ import annotations

from dataclasses import dataclass

from sparsecert.errors import InputError
from sparsecert.schemes.blocks import Bands, Blocks
from sparsecert.schemes.fixed import FixedMasks
from sparsecert.schemes.lattice import Lattice
from sparsecert.schemes.partition import Partition

NEEDED = {"lattice": "parts", "partition": "parts", "blocks": "size", "bands": "size"}
TAKEN = {  # what else each may be told
    "lattice": ("parts", "rounds"),
    "partition": ("parts", "rounds", "seed"),
    "blocks": ("size",),
    "bands": ("size", "rows"),
}


@dataclass(frozen=True)
class Choice:
    """A fixed set of masks but for the size of the image: its kind and its numbers; None: what the scheme defaults to.

    parts, rounds: of `Lattice` and `Partition`. seed: of `Partition`. size: of `Blocks` and `Bands`. rows: of `Bands`.
    """

    kind: str
    parts: int | None = None
    rounds: int | None = None
    seed: int | None = None
    size: int | None = None
    rows: bool | None = None

    def __post_init__(self) -> None:
        if self.kind not in NEEDED:
            raise InputError(f"scheme must be one of uniform, {', '.join(NEEDED)}, got {self.kind!r}")
        for name in self._given:
            if name not in TAKEN[self.kind]:
                takers = " and ".join(kind for kind, names in TAKEN.items() if name in names)
                raise InputError(f"{name} is a number of the scheme {takers}, not of {self.kind}; leave it out")
        if NEEDED[self.kind] not in self._given:
            raise InputError(f"scheme {self.kind} needs {NEEDED[self.kind]}")
        for name, value in self._given.items():
            if name != "rows" and value < (name != "seed"):
                raise InputError(f"{name} must be at least {int(name != 'seed')}, got {value}")

    @property
    def _given(self) -> dict[str, int]:
        values = {name: getattr(self, name) for name in ("parts", "rounds", "seed", "size", "rows")}
        return {name: value for name, value in values.items() if value is not None}

    def of(self, height: int, width: int) -> FixedMasks:
        """The scheme for images of this size."""
        given: dict[str, int] = self._given
        if self.kind == "partition":
            return Partition(height * width, **given)
        if self.kind == "lattice":
            return Lattice(height, width, **given)
        if self.kind == "blocks":
            return Blocks(height, width, **given)
        return Bands(height, width, given["size"], bool(self.rows))

    def __str__(self) -> str:
        """What a folder is named: lattice-28x1, partition-28x3-seed2, blocks-10, bands-4, bands-4-rows."""
        if self.size is not None:
            return f"{self.kind}-{self.size}{'-rows' if self.rows else ''}"
        seed = f"-seed{self.seed}" if self.seed else ""
        return f"{self.kind}-{self.parts}x{self.rounds or 1}{seed}"
