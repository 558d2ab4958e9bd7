"""The paper's scheme: retain exactly k of d units, every such set equally likely."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import count
from math import comb
from typing import TYPE_CHECKING, ClassVar

from sparsecert.errors import check_int
from sparsecert.registry import SCHEMES, Option
from sparsecert.schemes.scheme import DELTA_BITS, RoundedUp, Scheme

if TYPE_CHECKING:
    import torch

MOST_UNITS = (1 << 31) - 1
KEEP = Option("--keep", int, "Units retained in each ablated copy (default: the recipe's).", least=1)


@SCHEMES.register("uniform")
@dataclass(frozen=True)
class Uniform(Scheme):
    """Retains exactly `keep` of `units` units, uniformly: T ~ U(d, k) of Levine & Feizi.

    Theorem 1: changing at most rho units moves no class probability by more than
    delta(rho) = 1 - C(d - rho, k) / C(d, k), the probability that a mask retains any of them.

    >>> Uniform(units=784, keep=45).delta(1)
    RoundedUp(45, 784)
    """

    options: ClassVar[tuple[Option, ...]] = (KEEP,)

    units: int
    keep: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "units", check_int("units", self.units, 1, MOST_UNITS, "2**31 - 1"))
        object.__setattr__(self, "keep", check_int("keep", self.keep, 1, self.units, f"units ({self.units})"))

    @property
    def retained(self) -> int:
        return self.keep

    def delta(self, rho: int) -> Fraction:
        """1 - C(d - rho, k) / C(d, k), exactly; its float rounds up. 0 at rho = 0, 1 once rho > units - keep."""
        rho = check_int("rho", rho, 0, MOST_UNITS, "2**31 - 1")
        if rho > self.units - self.keep:
            return RoundedUp(1)
        # Either side of C(d - rho, k) / C(d, k) = C(d - k, rho) / C(d, rho) is exact; take the one with fewer factors.
        few = min(rho, self.keep)
        many = max(rho, self.keep)
        return RoundedUp(1 - Fraction(comb(self.units - many, few), comb(self.units, few)))

    def _deltas(self) -> Iterator[int]:
        """A running product in fixed point: the untouched share is rounded down at every step, so delta is not below.

        Each step loses less than 2**-128, so the table sits above the exact delta by less than rho * 2**-128.
        """
        one = 1 << DELTA_BITS
        untouched = one
        for rho in count():
            yield one - untouched
            if 2 * untouched <= one:
                return
            untouched = untouched * (self.units - self.keep - rho) // (self.units - rho)  # 0 once rho is units - keep

    def masks_at(self, seed: int, examples: torch.Tensor, draws: torch.Tensor) -> torch.Tensor:
        """Bool[rows, units], exactly `keep` True in each row; the smaller of retained and ablated sets is drawn."""
        from sparsecert.schemes.subsets import subsets

        if examples.device.type == "mps":  # int64 arithmetic is complete on cpu and cuda only
            return self.masks_at(seed, examples.cpu(), draws.cpu()).to(examples.device)
        if 2 * self.keep <= self.units:
            return subsets(seed, examples, draws, self.units, self.keep)
        return ~subsets(seed, examples, draws, self.units, self.units - self.keep)

    @cached_property
    def nonuniformity(self) -> Fraction:
        """Total-variation distance of one mask from U(d, k), at most, for ideal 64-bit words: 1e-15 on MNIST, k = 45.

        A step of Floyd's algorithm on {0, .., j} gives each value floor or ceil(2**64 / (j + 1)) of the 2**64 words:
        its probability is within 2**-64 of 1 / (j + 1), the step within (j + 1) * 2**-65 of uniform. Independent steps
        add up, here over j = d - s, .., d - 1 for the s = min(k, d - k) units that are drawn.
        """
        steps = min(self.keep, self.units - self.keep)
        return Fraction(steps * (2 * self.units - steps + 1), 1 << 66)
