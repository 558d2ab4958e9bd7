"""The certificate for random values against every copy there is, and the figures of the paper's discussion."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import prod

import pytest

from sparsecert.certificates.random_values import RandomValues
from sparsecert.errors import InputError
from sparsecert.schemes import Uniform

IMAGENET = 3 * 224 * 224


def _least(noise: RandomValues, units: int, rho: int, p: Fraction) -> Fraction:
    """The least probability under x' of a (random) set of copies with probability p under x: copy by copy."""
    one, other = (0,) * units, (1,) * rho + (0,) * (units - rho)

    def likely(copy: tuple[int, ...], source: tuple[int, ...]) -> Fraction:
        return prod(
            (noise.kappa if shown == true else noise.beta for shown, true in zip(copy, source, strict=True)),
            start=Fraction(1),
        )

    copies = [(likely(copy, one), likely(copy, other)) for copy in product(range(noise.values), repeat=units)]
    copies.sort(key=lambda pair: pair[0] / pair[1], reverse=True)
    left, least = p, Fraction(0)
    for own, others in copies:
        taken = min(left, own)
        left, least = left - taken, least + others * taken / own
    return least


@pytest.mark.parametrize(("values", "kappa"), [(2, "0.8"), (3, "0.5"), (3, "0.9"), (4, "0.3")])
@pytest.mark.parametrize(("units", "rho"), [(1, 1), (2, 1), (3, 2), (3, 3)])
def test_what_is_needed_is_tight(values: int, kappa: str, units: int, rho: int) -> None:
    """With exactly what is needed the worst case is 1/2, with more it is above: of all copies, one by one."""
    noise = RandomValues(values, kappa)
    needed = noise.needed(rho)
    assert _least(noise, units, rho, needed) == Fraction(1, 2)
    more = (needed + 1) / 2
    assert _least(noise, units, rho, more) > Fraction(1, 2)
    assert _least(noise, units, rho, needed * Fraction(99, 100)) < Fraction(1, 2)


@pytest.mark.parametrize("rho", [0, 1, 2, 5, 9])
def test_the_regions_are_all_there_is(rho: int) -> None:
    regions = RandomValues(256, "0.37").regions(rho)
    assert len(regions) == 2 * rho + 1
    assert sum(of_x for of_x, _ in regions) == sum(of_other for _, of_other in regions) == 1
    ratios = [of_x / of_other for of_x, of_other in regions]
    assert ratios == sorted(ratios, reverse=True)
    assert len(set(ratios)) == len(ratios)


def test_the_radius_grows_with_what_is_known() -> None:
    noise = RandomValues(256, "0.2")
    assert list(noise.thresholds) == sorted(set(noise.thresholds))
    assert noise.thresholds[0] == Fraction(1, 2)
    assert noise.radius(Fraction(1, 2)) is None
    for rho, needed in enumerate(noise.thresholds[:5]):
        assert noise.radius(needed + Fraction(1, 10**9)) == rho
        assert noise.radius(needed) == (rho - 1 if rho else None)


def test_the_figures_of_the_discussion() -> None:
    """ImageNet by channels, 256 values, kappa = 0.1: Levine & Feizi, in comparison with Lee et al."""
    noise = RandomValues(256, "0.1")
    assert round(float(noise.needed(1)), 3) == 0.596
    ours = [keep for keep in (14_521, 14_522) if Uniform(IMAGENET, keep).delta(1) + Fraction(1, 2) <= noise.needed(1)]
    assert ours == [14_521]
    assert 14_521 * 8 == 116_168
    assert round(noise.mutual_information(IMAGENET), 1) == 50_590.4


def test_all_or_nothing() -> None:
    assert RandomValues(2, 1).mutual_information(10) == 10
    with pytest.raises(InputError, match="kappa must be above 1 / 4"):
        RandomValues(4, "0.25")
    for values in (1, (1 << 31) + 1):
        with pytest.raises(InputError, match="values must be a whole number between 2"):
            RandomValues(values, 1)
    assert RandomValues(1 << 31, 1).beta == 0
    for rho in (-1, (1 << 20) + 1):
        with pytest.raises(InputError, match="rho must be a whole number between 0"):
            RandomValues(2, 1).needed(rho)
    with pytest.raises(InputError, match="at most 1"):
        RandomValues(4, "1.5")
