"""A fixed, public set of masks, few enough that all of them vote."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from sparsecert.errors import check_int
from sparsecert.registry import Option
from sparsecert.schemes.scheme import DELTA_BITS, ENUMERATION, RoundedUp, Scheme

if TYPE_CHECKING:
    import torch

MOST_SIDE = 1 << 12
PARTS = Option("--parts", int, "The number of disjoint masks.", least=1, required=True, short="-{}")
PARTITIONS = Option("--partitions", int, "The number of partitions.", "rounds", least=1, default=1, short="x{}")


class FixedMasks(Scheme):
    """A set of masks that is the same for every input and seed; a draw is one of them, uniformly.

    The vote of all of them is deterministic, and so are its certificates (`certificates.pairwise`,
    `certificates.run_off`, `certificates.plurality`). Random draws serve training, and the certificates that every
    scheme has.
    """

    against: ClassVar[str] = "pixels"  # what its exact certificates are for: pixels anywhere, or "patches"
    rule: ClassVar[str] = "pairwise"  # the default rule to elect a class
    few_units: ClassVar[bool] = False  # whether every set of perturbed units can be enumerated

    @abstractmethod
    def _table(self) -> npt.NDArray[np.bool_]:
        """Bool[masks, units], True where a unit is retained."""

    @cached_property
    def table(self) -> npt.NDArray[np.bool_]:
        """All masks: Bool[masks, units]."""
        table = self._table()
        table.setflags(write=False)
        return table

    @property
    def count(self) -> int:
        """The number of masks; the most that an input has, where the number of units is open."""
        return len(self.table)

    @property
    def retained(self) -> int:
        return int(self.table.sum(axis=1).max())

    @cached_property
    def _most_met(self) -> list[int]:
        """Entry rho: at most this many masks retain any of rho units; the last is for all units."""
        loads = np.sort(self.table.sum(axis=0))[::-1]
        met: list[int] = np.minimum(np.concatenate(([0], np.cumsum(loads))), len(self.table)).tolist()
        return met

    def delta(self, rho: int) -> Fraction:
        """An upper bound on the share of masks that retain any of rho units: the sum over the rho most retained."""
        rho = check_int("rho", rho, 0, (1 << 31) - 1, "2**31 - 1")
        return RoundedUp(Fraction(self._most_met[min(rho, self.units)], len(self.table)))

    def _deltas(self) -> Iterator[int]:
        for met in self._most_met:
            yield -((-met << DELTA_BITS) // len(self.table))
            if 2 * met >= len(self.table):
                return

    def masks_at(self, seed: int, examples: torch.Tensor, draws: torch.Tensor) -> torch.Tensor:
        """Bool[rows, units]: one of the masks in each row, at random; draw ENUMERATION + n is mask n itself."""
        import torch

        from sparsecert.schemes.philox import words
        from sparsecert.schemes.subsets import scale_words

        if examples.device.type == "mps":  # int64 arithmetic is complete on cpu and cuda only
            return self.masks_at(seed, examples.cpu(), draws.cpu()).to(examples.device)
        high, low = words(seed, examples, draws, 1)
        count = torch.full((1,), len(self.table), device=examples.device)  # no copy from the host: CUDA graphs
        chosen = scale_words(high, low, count).squeeze(1)
        chosen = torch.where(draws >= ENUMERATION, (draws - ENUMERATION) % len(self.table), chosen)
        return self.all_masks(examples.device)[chosen]

    def all_masks(self, device: torch.device | str = "cpu") -> torch.Tensor:
        """`table` as a tensor, cached per device."""
        import torch

        key = str(device)
        if key not in self._tensors:
            self._tensors[key] = torch.from_numpy(self.table.copy()).to(device)
        return self._tensors[key]

    @cached_property
    def _tensors(self) -> dict[str, torch.Tensor]:
        return {}

    @property
    def nonuniformity(self) -> Fraction:
        """A number of 64 bits scaled to m values gives each floor or ceil(2**64 / m) of the 2**64 words."""
        return Fraction(len(self.table), 1 << 65)


@dataclass(frozen=True)
class ImageMasks(FixedMasks):
    """A fixed set of masks of a height x width image, whose pixels are the units, row by row."""

    words: ClassVar[dict[str, str]] = {**FixedMasks.words, "height": "{height} x {width} pixels", "width": ""}

    height: int
    width: int

    def __post_init__(self) -> None:
        for name in ("height", "width"):
            object.__setattr__(self, name, check_int(name, getattr(self, name), 1, MOST_SIDE))

    @classmethod
    def for_image(cls, shape: Sequence[int], **settings: Any) -> ImageMasks:
        _, height, width = shape
        return cls(height, width, **settings)

    @property
    def units(self) -> int:  # type: ignore[override]
        return self.height * self.width

    @property
    def sides(self) -> tuple[int, int]:
        return self.height, self.width


def parts_table(parts: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.bool_]:
    """Bool[count, units]: the masks of a partition that puts unit u into part parts[u]."""
    table: npt.NDArray[np.bool_] = parts[None] == np.arange(count)[:, None]
    return table
