"""Units replaced by random other values: a scheme of the same time as ablation.

Lee, Yuan, Chang & Jaakkola, "Tight Certificates of Adversarial Robustness for Randomly Smoothed Classifiers" (NeurIPS
2019).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import islice
from math import log2, prod
from typing import TYPE_CHECKING, Any, ClassVar

from sparsecert.errors import InputError, check_int
from sparsecert.registry import SCHEMES, Option
from sparsecert.schemes.scheme import DELTA_BITS, RoundedUp, Scheme
from sparsecert.schemes.uniform import MOST_UNITS

if TYPE_CHECKING:
    import torch

    from sparsecert.certificates.certificate import Theorem

MOST_VALUES = 1 << 16  # 16-bit images
MOST_CHARACTERS = 64  # of kappa as text; the finest that can be drawn takes ten digits
MOST_EXACT = 256  # the largest radius with exact arithmetic; the tight theorems certify none above
NUMBERS_AT_ONCE = {"cpu": 1 << 17, "cuda": 1 << 24}  # fits a cache, or keeps a GPU busy

KAPPA = Option("--kappa", str, "The probability that a unit keeps its value, such as 0.1 or 1/10.", required=True)
VALUES = Option("--values", int, "Number of values of a unit.", default=256)


@SCHEMES.register("random-values")
@dataclass(frozen=True)
class RandomValues(Scheme):
    """Keeps each unit with probability `kappa`; otherwise replaces it by one of the other `values`, uniformly.

    A unit is one entry of the input: a pixel of a grey image, one channel of a pixel of a colour image. There is no
    NULL, so the model does not know what was kept. Masks are numbers: 0 where a unit is kept, j >= 1 where it is
    replaced by the j-th, in rising order, of the values that it does not have (see `encodings.ReplacedValues`).

    Let x and x' differ in r units. The other units of a copy z do not tell x from x'. Each of the r agrees with x
    (probability kappa in a copy of x, beta = (1 - kappa) / (values - 1) in one of x'), with x' (the other way round),
    or with neither (beta for each of values - 2 values, in both). So the likelihood ratio of z, (kappa / beta)**m,
    depends only on m: the number of them that agree with x minus the number that agree with x'.

    kappa is a Fraction, or a decimal number taken literally; everything here is exact.

    >>> RandomValues(units=784, kappa=0.1, values=256).delta(1)
    RoundedUp(41, 425)
    """

    options: ClassVar[tuple[Option, ...]] = (KAPPA, VALUES)
    encoding: ClassVar[str] = "replaced-values"
    mask_per: ClassVar[str | None] = "sample"

    units: int
    kappa: Fraction
    values: int

    def __init__(self, units: int, kappa: Fraction | float | str, values: int = 256) -> None:
        object.__setattr__(self, "units", check_int("units", units, 1, MOST_UNITS, "2**31 - 1"))
        object.__setattr__(self, "values", check_int("values", values, 2, MOST_VALUES, "2**16"))
        exact = _exact(kappa)
        if not Fraction(1, self.values) < exact <= 1:
            raise InputError(
                f"kappa must be above 1 / {self.values}, or nothing is kept on purpose, and at most 1: {_shown(kappa)}"
            )
        object.__setattr__(self, "kappa", exact)
        if self.size > MOST_UNITS:
            most = MOST_UNITS // (self.values - 1)
            raise InputError(f"kappa must be a fraction with a denominator of at most {most}, got {_shown(exact)}")

    @classmethod
    def for_image(cls, shape: Sequence[int], **settings: Any) -> RandomValues:
        """As `Scheme.for_image`, but every entry is a unit."""
        return cls(prod(shape), **settings)

    def sharper_theorem(self, bound: str) -> tuple[Theorem, str] | None:
        """See `certificates.random_values`: all use the likelihood ratio, of which delta is only the distance.

        Pairwise, `majority` is asked of each comparison: A stays above j with probability above 1/2.
        """
        from sparsecert.certificates.random_values import lead, majority

        theorems = {
            "two-sided": (lead, "random-values-lead"),
            "one-sided": (majority, "random-values-majority"),
            "pairwise": (majority, "random-values-pairwise"),
        }
        return theorems.get(bound)

    @property
    def beta(self) -> Fraction:
        """The probability of each other value."""
        return (1 - self.kappa) / (self.values - 1)

    @property
    def size(self) -> int:
        """A common denominator of kappa and beta."""
        return self.kappa.denominator * (self.values - 1)

    @property
    def parts(self) -> tuple[int, int]:
        """kappa and beta in units of 1 / size."""
        return self.kappa.numerator * (self.values - 1), self.kappa.denominator - self.kappa.numerator

    def laws(self) -> Iterator[list[int]]:
        """For rho = 0, 1, ...: the probabilities of m = rho, rho - 1, ..., -rho in copies of x, in units of 1 /
        size**rho.

        In copies of x', rho units away, m has the probability that -m has here.
        """
        kept, other = self.parts
        law = [1]
        while True:
            yield law
            neither, padded = (self.values - 2) * other, [0, 0, *law, 0, 0]
            law = [
                kept * below + neither * same + other * above
                for above, same, below in zip(padded, padded[1:], padded[2:], strict=False)
            ]

    def delta(self, rho: int) -> Fraction:
        """The total-variation distance between copies of x and x', rho units away: Theorem 1's delta, rounded up.

        Exact up to MOST_EXACT; beyond, an upper bound by coupling: each of the rho units shows the same in both copies
        with probability 1 - (kappa - beta), and all of them with the rho-th power of that.
        """
        rho = min(check_int("rho", rho, 0, MOST_UNITS, "2**31 - 1"), self.units)
        return RoundedUp(_distance(self, rho) if rho <= MOST_EXACT else self._coupled(rho))

    def _coupled(self, rho: int) -> Fraction:
        same = 1 - self.kappa + self.beta
        return Fraction(
            (1 << DELTA_BITS) - _power((same.numerator << DELTA_BITS) // same.denominator, rho), 1 << DELTA_BITS
        )

    def _deltas(self) -> Iterator[int]:
        laws, one = self.laws(), 1 << DELTA_BITS
        for rho in range(self.units + 1):
            exact = _farther(next(laws), self.size**rho) if rho <= MOST_EXACT else self._coupled(rho)
            found = -((-exact.numerator << DELTA_BITS) // exact.denominator)
            yield found
            if 2 * found >= one:
                return
        yield one

    def masks_at(self, seed: int, examples: torch.Tensor, draws: torch.Tensor) -> torch.Tensor:
        """Int32[rows, units]: 0 = kept, j = replaced by the j-th of the other values."""
        import torch

        if examples.device.type == "mps":  # int64 arithmetic is complete on cpu and cuda only
            return self.masks_at(seed, examples.cpu(), draws.cpu()).to(examples.device)
        rows = max(1, NUMBERS_AT_ONCE["cuda" if examples.is_cuda else "cpu"] // self.units)
        parts = zip(torch.split(examples, rows), torch.split(draws, rows), strict=True)
        return torch.cat([self._drawn(seed, *part) for part in parts])

    def _drawn(self, seed: int, examples: torch.Tensor, draws: torch.Tensor) -> torch.Tensor:
        import torch

        from sparsecert.schemes.philox import words
        from sparsecert.schemes.subsets import scale_words

        high, low = words(seed, examples, draws, self.units)
        numbers = scale_words(high, low, torch.full((), self.size, device=examples.device))
        kept, other = self.parts
        return torch.where(numbers < kept, 0, (numbers - kept) // max(1, other) + 1).int()

    @cached_property
    def nonuniformity(self) -> Fraction:
        """Total-variation distance of one mask from the ideal, at most, for ideal 64-bit words: 2e-14 on MNIST,
        kappa = 0.1.

        A word scaled to {0, ..., size - 1} gives `over` = 2**64 mod size of these numbers one word more than the
        others have: it is over * (size - over) / (size * 2**64) from uniform. What a unit shows follows from its
        number, with kappa and beta exactly if that is uniform, and the units are independent.
        """
        over = (1 << 64) % self.size
        return Fraction(self.units * over * (self.size - over), self.size << 64)

    def mutual_information(self) -> float:
        """The mutual information, in bits, of a copy and an input whose units are uniform over their values."""
        others = (1 - float(self.kappa)) * log2(float(self.beta)) if self.beta else 0.0
        return self.units * (log2(self.values) + float(self.kappa) * log2(float(self.kappa)) + others)

    def config(self) -> dict[str, Any]:
        number = float(self.kappa)
        kappa = number if Fraction(str(number)) == self.kappa else str(self.kappa)
        return {"kind": "random-values", "units": self.units, "kappa": kappa, "values": self.values}


def _exact(kappa: Fraction | float | str) -> Fraction:
    """The exact number. Text too long, too large or too small is refused first: 1e999999999 would fill the memory."""
    if isinstance(kappa, Fraction):
        return kappa
    try:
        text = str(kappa)
        if len(text) > MOST_CHARACTERS or ("/" not in text and not 0 < float(text) <= 1):
            raise ValueError
        return Fraction(text)
    except (ValueError, ZeroDivisionError) as error:
        raise InputError(
            "kappa must be a number above 0 and at most 1, such as 0.1 or 1/10, written in at most "
            f"{MOST_CHARACTERS} characters, got {_shown(kappa)}"
        ) from error


def _shown(kappa: Fraction | float | str) -> str:
    """The text, truncated."""
    try:
        text = str(kappa)
    except ValueError:  # Python writes no integer of more than some thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + "..."


def _power(base: int, exponent: int) -> int:
    """base**exponent, in units of 2**-DELTA_BITS, rounded down."""
    result = 1 << DELTA_BITS
    while exponent:
        if exponent & 1:
            result = result * base >> DELTA_BITS
        base, exponent = base * base >> DELTA_BITS, exponent >> 1
    return result


@lru_cache(maxsize=1 << 12)
def _distance(scheme: RandomValues, rho: int) -> Fraction:
    return _farther(next(islice(scheme.laws(), rho, None)), scheme.size**rho)


def _farther(law: list[int], whole_of: int) -> Fraction:
    """P(m > 0) in copies of x minus that in copies of x': their total-variation distance."""
    above = len(law) // 2
    return Fraction(sum(law[:above]) - sum(law[above + 1 :]), whole_of)
