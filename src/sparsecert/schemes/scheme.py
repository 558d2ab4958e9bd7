"""The base class of ablation schemes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import fields
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from sparsecert.errors import InputError
from sparsecert.registry import SCHEMES, Option

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import torch

    from sparsecert.certificates.certificate import Theorem

# Every purpose has draws of its own, and so its own masks: draw `n` of a purpose is the number `purpose + n`.
# Selection and estimation must be independent for the certificates to hold.
SELECTION, ESTIMATION, PREDICTION, TRAINING, AUGMENTATION, ATTACK, ENUMERATION = (purpose << 40 for purpose in range(7))
MAX_DRAWS = 1 << 40

DELTA_BITS = 128  # Scheme.deltas are integers in units of 2**-DELTA_BITS

if TYPE_CHECKING:
    Numbers = int | Sequence[int] | range | npt.NDArray[np.int64] | np.int64


class RoundedUp(Fraction):
    """An exact rational whose float is rounded up; arithmetic gives plain Fractions."""

    def __float__(self) -> float:
        nearest = self.numerator / self.denominator
        return nearest if Fraction(nearest) >= self else math.nextafter(nearest, math.inf)


class Scheme(ABC):
    """A distribution over masks of `units` units (pixels, features, tokens), and how often one retains a perturbed
    unit.

    A mask is True where a unit is retained and False where it becomes NULL. Every certificate rests on two guarantees:

    1. `masks` is a pure function of (seed, example, draw): the same on every device, for any batch and any order.
    2. `delta(rho)` is at least the probability that a mask retains any one of `rho` chosen units, whichever they are.

    Theorem 1 needs less than the second: that no event's probability differs by more than delta(rho) between the copies
    of two inputs that differ in rho units. `RandomValues`, which ablates nothing, guarantees that.
    """

    options: ClassVar[tuple[Option, ...]] = ()  # of `sparsecert train --scheme`
    encoding: ClassVar[str] = "null-channels"  # the default one
    mask_per: ClassVar[str | None] = None  # "sample": training draws a mask per sample, whatever the recipe says

    words: ClassVar[dict[str, str]] = {"kind": "{kind}", "keep": ""}  # of a setting, in `describe`; else "28 parts"

    units: int
    values: int | None = None  # of a unit, where masks say by which of them it is replaced (`RandomValues`)

    @abstractmethod
    def delta(self, rho: int) -> Fraction:
        """Probability that a mask retains any of `rho` perturbed units: Theorem 1's bound on |p_i(x') - p_i(x)|."""

    @abstractmethod
    def _deltas(self) -> Iterable[int]:
        """Upper bounds on delta(0), delta(1), ... in units of 2**-DELTA_BITS, up to the first that reaches 1/2."""

    @abstractmethod
    def masks_at(self, seed: int, examples: torch.Tensor, draws: torch.Tensor) -> torch.Tensor:
        """Bool[rows, units]: row r is the mask of (seed, examples[r], draws[r]), on the device of `examples`.

        Int[rows, units] where `values` is given.
        """

    @property
    @abstractmethod
    def nonuniformity(self) -> Fraction:
        """An upper bound on the total-variation distance between a generated mask and the distribution delta assumes.

        n masks are then within n times this of the ideal, which `bounds.corrected_alpha` subtracts from alpha.
        """

    @classmethod
    def for_image(cls, shape: Sequence[int], **settings: Any) -> Scheme:
        """The scheme with these settings for images of this shape (channels, height, width), a unit being a pixel."""
        _, height, width = shape
        return cls(units=height * width, **settings)  # type: ignore[call-arg]  # schemes are dataclasses with units

    @property
    def sides(self) -> tuple[int, int] | None:
        """Height and width of the image whose pixels, row by row, are the units; None for units of any kind."""
        return None

    @property
    def retained(self) -> int:
        """The most units that a mask retains."""
        return self.units

    def sharper_theorem(self, bound: str) -> tuple[Theorem, str] | None:
        """A tighter theorem that holds for this scheme alone, for intervals of this bound, and its name."""
        return None

    def for_units(self, units: int) -> Scheme:
        """This scheme for inputs of so many units: itself, or a refusal.

        An open scheme, one for inputs of any number of units (`units` is None), returns one that is bound to this
        number.
        """
        if units != self.units:
            raise InputError(f"inputs have {units} units each, the scheme has units={self.units}")
        return self

    @property
    def is_open(self) -> bool:
        """Whether inputs may have any number of units; each is then certified by `for_units` of its own number."""
        return self.units is None

    def some_bound(self) -> Scheme:
        """This scheme, to check settings by; an open one for inputs of one unit."""
        return self.for_units(1) if self.is_open else self

    def config(self) -> dict[str, Any]:
        """What `schemes.from_config` needs to rebuild this scheme: plain JSON values."""
        settings = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return {"kind": SCHEMES.name_of(type(self)), **settings}

    def describe(self) -> str:
        """The scheme in words, such as "lattice, 28 x 28 pixels, 28 parts".

        Settings at their default are left out, and so is `keep`, which reports list by itself.
        """
        settings = self.config()
        defaults = {field.name: field.default for field in fields(self)}  # type: ignore[arg-type]
        given = [name for name, value in settings.items() if value not in (None, defaults.get(name))]
        return ", ".join(
            filter(None, (self.words.get(name, f"{{{name}}} {name}").format(**settings) for name in given))
        )

    @cached_property
    def deltas(self) -> tuple[int, ...]:
        """The integer thresholds of every radius, up to delta = 1/2; computed once."""
        return tuple(self._deltas())

    def masks(
        self, seed: int, examples: Numbers | torch.Tensor, draws: Numbers | torch.Tensor, device: Any = None
    ) -> torch.Tensor:
        """Bool[examples, draws, units], True = retained; a pure function of the three numbers.

        `examples` and `draws` are the numbers themselves (a list, range or tensor); a plain int n stands for range(n).
        `masks(s, [3], [7])` equals `masks(s, range(10), range(10))[3, 7]` whatever the device or batch.
        """
        from sparsecert.schemes.philox import as_numbers

        rows, columns = as_numbers("examples", examples, device), as_numbers("draws", draws, device, bits=48)
        grid = self.masks_at(seed, rows.repeat_interleave(len(columns)), columns.repeat(len(rows)))
        return grid.view(len(rows), len(columns), self.units)
