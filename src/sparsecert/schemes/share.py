"""The paper's scheme for inputs of any length: k is a share of the input's units."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, ClassVar

from sparsecert.errors import InputError, check_int
from sparsecert.registry import SCHEMES, Option
from sparsecert.schemes.scheme import Scheme
from sparsecert.schemes.uniform import MOST_UNITS, Uniform

if TYPE_CHECKING:
    import torch


@SCHEMES.register("share")
@dataclass(frozen=True)
class Share(Scheme):
    """`Uniform` with keep = `share` of the units, rounded half up, at least 1.

    Without `units` it is open: `for_units(n)` binds it to inputs of n units, with the delta of `Uniform(n, keep)`. The
    number of units decides k, so it is public, and certificates hold for changes that leave it as it is.

    >>> Share("0.1").for_units(40).delta(1) == Uniform(units=40, keep=4).delta(1)
    True
    """

    options: ClassVar[tuple[Option, ...]] = (
        Option(
            "--share", str, "Share of an input's units that a mask retains, such as 0.1.", required=True, short="-{}"
        ),
    )
    words: ClassVar[dict[str, str]] = {
        "kind": "{kind}",
        "share": "{share} of the units retained",
        "units": "{units} units",
    }

    share: str
    units: int | None = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        try:
            fits = 0 < Fraction(str(self.share)) <= 1
        except (ValueError, ZeroDivisionError):
            fits = False
        if not fits:
            raise InputError(f"share must be a number above 0, at most 1, such as 0.1, got {self.share!r}")
        object.__setattr__(self, "share", str(self.share))
        if self.units is not None:
            object.__setattr__(self, "units", check_int("units", self.units, 1, MOST_UNITS, "2**31 - 1"))

    @cached_property
    def uniform(self) -> Uniform:
        """The scheme of inputs with this many units; refused while that number is open."""
        if self.units is None:
            raise InputError(f"{self} is for inputs of any number of units; bind it first: for_units(n)")
        return Uniform(self.units, max(1, int(Fraction(self.share) * self.units + Fraction(1, 2))))

    @property
    def retained(self) -> int:
        return self.uniform.keep

    def for_units(self, units: int) -> Scheme:
        return super().for_units(units) if self.units is not None else _bound(self, units)

    def delta(self, rho: int) -> Fraction:
        return self.uniform.delta(rho)

    def _deltas(self) -> Iterator[int]:
        return iter(self.uniform.deltas)

    def masks_at(self, seed: int, examples: torch.Tensor, draws: torch.Tensor) -> torch.Tensor:
        return self.uniform.masks_at(seed, examples, draws)

    @property
    def nonuniformity(self) -> Fraction:
        return self.uniform.nonuniformity


@lru_cache(maxsize=4096)
def _bound(scheme: Share, units: int) -> Share:
    """Cached, and with it the table of radii of each length."""
    return replace(scheme, units=units)
