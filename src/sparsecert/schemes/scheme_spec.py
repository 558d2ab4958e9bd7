"""A scheme by name, before it is known how large the images are."""

from __future__ import annotations

import re
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
        for name in self.numbers:
            if name not in TAKEN[self.kind]:
                takers = " and ".join(kind for kind, names in TAKEN.items() if name in names)
                raise InputError(f"{name} is a number of the scheme {takers}, not of {self.kind}; leave it out")
        if NEEDED[self.kind] not in self.numbers:
            raise InputError(f"scheme {self.kind} needs {NEEDED[self.kind]}")
        for name, value in self.numbers.items():
            if name != "rows" and value < (name != "seed"):
                raise InputError(f"{name} must be at least {int(name != 'seed')}, got {value}")

    @classmethod
    def parse(cls, text: str) -> Choice:
        """The choice whose `str` this is."""
        found = re.fullmatch(r"(lattice|partition)-(\d{1,9})x(\d{1,9})(?:-seed(\d{1,19}))?", text)
        if found is not None:
            return cls(found[1], int(found[2]), int(found[3]), None if found[4] is None else int(found[4]))
        found = re.fullmatch(r"(blocks|bands)-(\d{1,9})(-rows)?", text)
        if found is not None:
            return cls(found[1], size=int(found[2]), rows=True if found[3] else None)
        raise InputError(f"masks must be named as in lattice-28x1, partition-28x3, blocks-10 or bands-4, got {text!r}")

    @property
    def numbers(self) -> dict[str, int]:
        """Those that are not None."""
        values = {name: getattr(self, name) for name in ("parts", "rounds", "seed", "size", "rows")}
        return {name: value for name, value in values.items() if value is not None}

    def one_of(self, kinds: tuple[str, ...], attack: str) -> Choice:
        """This choice, if it is of one of these kinds, which are for such an attack."""
        if self.kind not in kinds:
            raise InputError(f"against {attack} masks must be {' or '.join(kinds)}, got {self}")
        return self

    def of(self, height: int, width: int) -> FixedMasks:
        """The scheme for images of this size."""
        given: dict[str, int] = self.numbers
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
