"""Certificates for units that are replaced by random other values, the scheme that was proposed at the same time.

Lee, Yuan, Chang & Jaakkola, "Tight Certificates of Adversarial Robustness for Randomly Smoothed Classifiers" (NeurIPS
2019). Every unit of an input, which has one of `values` values, is kept with probability `kappa`, otherwise replaced by
one of the other values, each as likely.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import comb, log2

from sparsecert.checks import whole
from sparsecert.errors import InputError

HALF = Fraction(1, 2)


@dataclass(frozen=True)
class RandomValues:
    """What p_A(x) has to be for p_A(x') > 1/2 wherever x' differs from x in at most rho units, exactly.

    Let x and x' differ in r units. What a copy z shows in the others says nothing about which of the two it was made
    of. Each of the r agrees with x (probability kappa in a copy of x, beta = (1 - kappa) / (values - 1) in one of x'),
    with x' (the other way round), or with neither (beta for each of values - 2 values, in both). So the likelihood
    ratio of z depends on m alone: in how many of them it agrees with x, less in how many with x'. By Neyman & Pearson,
    of all sets of copies of probability p under x, one that takes them in falling order of m is the least likely under
    x': p_A(x') can be that small, and no smaller. The p at which it is 1/2 is what has to be exceeded.

    That needs kappa > beta. All of it is arithmetic of rationals: `kappa` is a Fraction, or a decimal number, which is
    taken for what it says.
    """

    values: int
    kappa: Fraction

    def __init__(self, values: int, kappa: Fraction | float | str) -> None:
        object.__setattr__(self, "values", whole("values", values, 2, 1 << 31, "2**31"))
        exact = kappa if isinstance(kappa, Fraction) else Fraction(str(kappa))
        if not Fraction(1, self.values) < exact <= 1:
            raise InputError(
                f"kappa must be above 1 / {self.values}, or nothing is kept on purpose, and at most 1: {kappa}"
            )
        object.__setattr__(self, "kappa", exact)

    @property
    def beta(self) -> Fraction:
        """The probability of each other value."""
        return (1 - self.kappa) / (self.values - 1)

    def regions(self, rho: int) -> list[tuple[Fraction, Fraction]]:
        """For m = rho, rho - 1, ..., -rho: its probability in copies of x, and in those of x', rho units away."""
        rest = (self.values - 2) * self.beta
        of_x = [
            sum(
                (
                    comb(rho, with_x) * comb(rho - with_x, with_x - m) * self.kappa**with_x
                    * self.beta ** (with_x - m) * rest ** (rho - 2 * with_x + m)
                    for with_x in range(max(0, m), (rho + m) // 2 + 1)
                ),
                Fraction(0),
            )
            for m in range(rho, -rho - 1, -1)
        ]  # fmt: skip
        return list(zip(of_x, reversed(of_x), strict=True))

    def needed(self, rho: int) -> Fraction:
        """p_A(x) must be above this for p_A(x') > 1/2; 1 where that cannot be."""
        rho = whole("rho", rho, 0, 1 << 20)
        own = other = Fraction(0)
        for of_x, of_other in self.regions(rho):
            if other + of_other >= HALF:
                return own + (HALF - other) * of_x / of_other
            own, other = own + of_x, other + of_other
        raise AssertionError("all regions together have probability 1")

    @cached_property
    def thresholds(self) -> tuple[Fraction, ...]:
        """`needed` of 0, 1, ..., as long as it rises and is below 1."""
        return tuple(self._thresholds())

    def _thresholds(self) -> Iterator[Fraction]:
        rho = 0
        while (needed := self.needed(rho)) < 1 - Fraction(1, 1 << 40):
            yield needed
            rho += 1

    def radius(self, p_lower: Fraction) -> int | None:
        """The largest rho certified for a class whose probability is at least p_lower; None where not even 0 is."""
        below = sum(p_lower > needed for needed in self.thresholds)
        return below - 1 if below else None

    def mutual_information(self, units: int) -> float:
        """Bits that a copy holds, on average, about an input whose units have values that are all equally likely."""
        others = (1 - float(self.kappa)) * log2(float(self.beta)) if self.beta else 0.0
        return units * (log2(self.values) + float(self.kappa) * log2(float(self.kappa)) + others)
