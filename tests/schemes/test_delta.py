"""delta, against enumeration and closed forms."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, pairwise

import pytest

from sparsecert import schemes
from sparsecert.errors import InputError
from sparsecert.schemes import DELTA_BITS, RoundedUp, Scheme, Uniform, from_config, lattice
from tests.contracts import ALL_SCHEMES, SCHEMES, SMALL_SCHEMES


@pytest.mark.parametrize("scheme", SMALL_SCHEMES, ids=str)
def test_delta_is_the_share_of_masks_that_meet_the_perturbed_units(scheme: Uniform) -> None:
    masks = [set(mask) for mask in combinations(range(scheme.units), scheme.keep)]
    for rho in range(scheme.units + 1):
        perturbed = set(range(rho))
        assert scheme.delta(rho) == Fraction(sum(bool(mask & perturbed) for mask in masks), len(masks))


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_delta_begins_at_0_grows_and_ends_at_1(scheme: Scheme) -> None:
    deltas = [scheme.delta(rho) for rho in range(scheme.units + 1)]
    assert deltas[0] == 0
    assert deltas[-1] == 1
    assert deltas == sorted(deltas)


def test_delta_is_1_exactly_when_more_are_perturbed_than_ablated() -> None:
    scheme = Uniform(units=20, keep=6)
    assert scheme.delta(14) < 1
    assert scheme.delta(15) == scheme.delta(20) == 1


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_delta_as_a_float_never_rounds_down(scheme: Scheme) -> None:
    for rho in range(scheme.units + 1):
        exact = scheme.delta(rho)
        as_float = float(exact)
        assert Fraction(as_float) >= Fraction(exact)
        assert Fraction(math.nextafter(as_float, -1)) < Fraction(exact)


def test_rounded_up_steps_where_the_nearest_float_is_below() -> None:
    third = Fraction(1, 3)
    assert Fraction(float(third)) < third < Fraction(float(RoundedUp(third)))


@pytest.mark.parametrize(
    "scheme", [*SCHEMES, Uniform(150_528, 2_000), Uniform(50_176, 1_000), Uniform(3_072, 7)], ids=str
)
def test_the_integer_table_is_above_delta_by_less_than_rho_steps(scheme: Scheme) -> None:
    table = scheme.deltas
    for rho, value in enumerate(table):
        exact = scheme.delta(rho) * (1 << DELTA_BITS)
        assert exact <= value <= exact + rho
    assert table[0] == 0
    assert all(a < b for a, b in pairwise(table))
    assert 2 * table[-1] >= 1 << DELTA_BITS
    assert all(2 * value < 1 << DELTA_BITS for value in table[:-1])


def test_the_table_of_a_large_scheme_is_short_and_made_once() -> None:
    """It ends where delta reaches 1/2, at 53 entries of 150,529, each one integer product away from the last."""
    scheme = Uniform(units=150_528, keep=2_000)
    assert len(scheme.deltas) == 53
    assert max(value.bit_length() for value in scheme.deltas) <= DELTA_BITS
    assert scheme.deltas is scheme.deltas


def test_the_papers_example_of_one_pixel() -> None:
    """Discussion section: p = 0.596 certifies one pixel of 3 * 224 * 224 for at most k = 14,521."""
    units, needed = 3 * 224 * 224, Fraction(596, 1000) - Fraction(1, 2)
    # The paper rounds p to three digits: 14,521 / 150,528 = 0.09647
    assert round(float(Uniform(units, 14_521).delta(1)) + 0.5, 3) == round(float(needed) + 0.5, 3)


@pytest.mark.parametrize(("units", "keep"), [(784, 0), (784, 785), (784, -3), (0, 1), (784, 4.5), (1 << 31, 5)])
def test_a_scheme_that_cannot_be_is_refused(units: int, keep: int) -> None:
    with pytest.raises(InputError, match="must be"):
        Uniform(units=units, keep=keep)


def test_the_refusal_names_argument_value_and_remedy() -> None:
    with pytest.raises(InputError, match=r"keep must be a whole number between 1 and units \(784\), got 900"):
        Uniform(units=784, keep=900)


def test_perturbing_more_units_than_there_are_is_perturbing_all_of_them() -> None:
    assert Uniform(784, 45).delta(785) == Uniform(784, 784).delta(10**6) == 1


@pytest.mark.parametrize("rho", [-1, 1.5, None])
def test_rho_that_is_no_number_of_units_is_refused(rho: int) -> None:
    with pytest.raises(InputError, match="rho must be a whole number between 0"):
        Uniform(784, 45).delta(rho)


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_a_scheme_survives_its_config(scheme: Scheme) -> None:
    assert from_config(scheme.config()) == scheme


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(
        InputError,
        match=r"must be one of all-subsets, bands, .*, random-values, share, spread, uniform, got 'spiral'",
    ):
        from_config({"kind": "spiral"})


def test_schemes_are_imported_when_they_are_asked_for() -> None:
    assert schemes.__getattr__("Lattice") is lattice.Lattice
    assert schemes.__getattr__("Uniform") is Uniform
    for name in ("Fraction", "Chessboard"):  # one that a file imports, and one that nobody knows
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'"):
            schemes.__getattr__(name)


def test_a_unit_of_an_image_is_a_pixel() -> None:
    assert Uniform.for_image((3, 4, 6), keep=5) == Uniform(units=24, keep=5)


@pytest.mark.parametrize("scheme", ALL_SCHEMES, ids=str)
def test_a_scheme_is_for_inputs_of_as_many_units(scheme: Scheme) -> None:
    assert scheme.for_units(scheme.units) == scheme
    with pytest.raises(InputError, match=f"inputs have {scheme.units + 1} units each, the scheme has units"):
        scheme.for_units(scheme.units + 1)
