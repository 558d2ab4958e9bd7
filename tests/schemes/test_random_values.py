"""Random values: the exact law of what is drawn, its distance from another input's, and what is refused."""

from __future__ import annotations

import json
import re
from collections import Counter
from fractions import Fraction
from itertools import product
from math import prod

import pytest
import torch
from scipy.stats import chisquare

from sparsecert.errors import InputError
from sparsecert.schemes import DELTA_BITS, ESTIMATION, RandomValues, from_config, random_values
from tests.helpers import ONCE_IN_A_MILLION

IMAGENET_UNITS = 3 * 224 * 224


def test_a_mask_depends_on_seed_example_and_draw_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    scheme = RandomValues(31, "0.3", 17)
    whole = scheme.masks(11, range(6), range(50))
    assert whole.dtype == torch.int32
    assert torch.equal(whole[3, 17], scheme.masks(11, [3], [17])[0, 0])
    assert torch.equal(whole[2:5, 10:30], scheme.masks(11, torch.tensor([2, 3, 4]), range(10, 30)))
    assert (whole != scheme.masks(12, range(6), range(50))).any(dim=2).all()
    assert (whole != scheme.masks(11, range(6), range(ESTIMATION, ESTIMATION + 50))).any(dim=2).all()
    assert scheme.masks(0, [], 4).shape == (0, 4, 31)
    drawn, rows = RandomValues._drawn, list[int]()

    def recorded(self: RandomValues, seed: int, examples: torch.Tensor, draws: torch.Tensor) -> torch.Tensor:
        rows.append(len(examples))
        return drawn(self, seed, examples, draws)

    monkeypatch.setattr(RandomValues, "_drawn", recorded)
    for most, expected in ((100, [3] * 100), (10, [1] * 300), (31 * 300, [300]), (31 * 299, [299, 1])):
        monkeypatch.setitem(random_values.NUMBERS_AT_ONCE, "cpu", most)
        assert torch.equal(whole, scheme.masks(11, range(6), range(50)))
        assert rows == expected  # no more numbers at a time than that, or one mask
        rows.clear()


@pytest.mark.parametrize(("units", "kappa", "values"), [(3, "0.4", 5), (2, "0.9", 4), (3, "2/3", 2)])
def test_masks_are_as_likely_as_they_should_be(units: int, kappa: str, values: int) -> None:
    """All combinations of all units together, so that their independence is tested too."""
    scheme = RandomValues(units, kappa, values)
    masks = scheme.masks(5, range(20), range(3_000)).flatten(0, 1)
    seen = Counter(map(tuple, masks.tolist()))
    every = list(product(range(values), repeat=units))
    chances = [prod(float(scheme.beta if entry else scheme.kappa) for entry in mask) for mask in every]
    assert sum(seen[mask] for mask in every) == len(masks)
    assert (
        chisquare([seen[mask] for mask in every], [chance * len(masks) for chance in chances]).pvalue
        > ONCE_IN_A_MILLION
    )


def test_the_usual_scheme_keeps_a_tenth() -> None:
    masks = RandomValues(784, 0.1).masks(1, 1, 2_000)
    counts = torch.bincount(masks.flatten().long(), minlength=256).numpy()
    expected = [0.1 * masks.numel(), *[0.9 / 255 * masks.numel()] * 255]
    assert len(counts) == 256
    assert chisquare(counts, expected).pvalue > ONCE_IN_A_MILLION


def test_what_is_always_kept_is_never_replaced() -> None:
    assert not RandomValues(9, 1, 4).masks(0, 2, 3).any()


@pytest.mark.parametrize(("values", "kappa"), [(2, "0.8"), (3, "0.5"), (4, "0.3"), (2, "1")])
def test_delta_is_the_total_variation_of_all_copies(values: int, kappa: str) -> None:
    scheme = RandomValues(3, kappa, values)

    def likely(copy: tuple[int, ...], source: tuple[int, ...]) -> Fraction:
        each = (scheme.kappa if a == b else scheme.beta for a, b in zip(copy, source, strict=True))
        return prod(each, start=Fraction(1))

    for rho in range(4):
        one, other = (0, 0, 0), (1,) * rho + (0,) * (3 - rho)
        copies = product(range(values), repeat=3)
        distance = sum(abs(likely(copy, one) - likely(copy, other)) for copy in copies) / 2
        assert scheme.delta(rho) == distance
        if rho < len(scheme.deltas) - 1:
            assert 0 <= Fraction(scheme.deltas[rho], 1 << DELTA_BITS) - distance < Fraction(1, 1 << 120)
    assert scheme.delta(10) == scheme.delta(3)


def test_deltas_rise_to_one_half_and_are_never_below_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = [RandomValues(784, "0.05").delta(rho) for rho in range(25)]
    monkeypatch.setattr(random_values, "MOST_EXACT", 6)
    for scheme in (RandomValues(784, "0.05"), RandomValues(4, "0.05"), RandomValues(784, "0.3", 17)):
        table = scheme.deltas
        assert list(table) == sorted(table)
        assert table[0] == 0
        assert 2 * table[-2] < 1 << DELTA_BITS <= 2 * table[-1]
        assert len(table) <= scheme.units + 2
    rough = [RandomValues(784, "0.05").delta(rho) for rho in range(25)]
    assert rough[:7] == exact[:7]
    assert all(one >= other for one, other in zip(rough, exact, strict=True))
    assert rough == sorted(rough)
    assert rough[-1] < 1
    assert 1 - RandomValues(IMAGENET_UNITS, "0.1").delta(IMAGENET_UNITS) < Fraction(1, 10**30)


SMALL = [RandomValues(12, "0.5", 3), RandomValues(2, "0.5", 3), RandomValues(5, "0.75", 2), RandomValues(40, "0.3", 4)]


@pytest.mark.parametrize("scheme", SMALL, ids=str)
@pytest.mark.parametrize("most_exact", [0, 1, 2, 256])
def test_the_table_is_delta_rounded_up_until_it_reaches_one_half(
    scheme: RandomValues, most_exact: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And ends with 1 where it never does: beyond all units there is nothing."""
    monkeypatch.setattr(random_values, "MOST_EXACT", most_exact)
    random_values._distance.cache_clear()
    exact = [scheme.delta(rho) * (1 << DELTA_BITS) for rho in range(scheme.units + 1)]
    until = [rho for rho, delta in enumerate(exact) if 2 * delta >= 1 << DELTA_BITS]
    expected = exact[: until[0] + 1] if until else [*exact, Fraction(1 << DELTA_BITS)]
    assert list(RandomValues(scheme.units, scheme.kappa, scheme.values).deltas) == [-(-one // 1) for one in expected]
    random_values._distance.cache_clear()


@pytest.mark.parametrize("scheme", SMALL, ids=str)
def test_beyond_what_is_exact_delta_is_that_of_units_drawn_together(
    scheme: RandomValues, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random_values, "MOST_EXACT", 0)
    for rho in range(1, scheme.units + 1):
        coupled = 1 - (1 - scheme.kappa + scheme.beta) ** rho
        assert 0 <= scheme.delta(rho) - coupled < Fraction(1, 1 << 120)


def test_nonuniformity_is_that_of_words_scaled_to_the_size() -> None:
    """With words of few bits, so that all of them can be counted."""
    scheme, bits = RandomValues(1, "0.3", 4), 9
    counts = Counter(word * scheme.size >> bits for word in range(1 << bits))
    even = Fraction(1, scheme.size)
    distance = sum(abs(Fraction(counts[n], 1 << bits) - even) for n in range(scheme.size)) / 2
    over = (1 << bits) % scheme.size
    assert distance == Fraction(over * (scheme.size - over), scheme.size << bits) > 0
    over = (1 << 64) % scheme.size
    assert scheme.nonuniformity == Fraction(over * (scheme.size - over), scheme.size << 64)
    assert RandomValues(7, "0.3", 4).nonuniformity == 7 * scheme.nonuniformity
    assert RandomValues(784, 0.1).nonuniformity < Fraction(1, 10**13)


@pytest.mark.parametrize("kappa", [0.1, "0.1", "1/10", Fraction(1, 10), "1/3", Fraction(2, 7), 1])
def test_kappa_is_what_it_says_and_survives_a_header(kappa: Fraction | float | str) -> None:
    scheme = RandomValues(5, kappa)
    assert scheme.kappa == Fraction(str(kappa))
    again = from_config(json.loads(json.dumps(scheme.config())))
    assert again == scheme
    assert hash(again) == hash(scheme)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((4, "0.25", 4), "kappa must be above 1 / 4"),
        ((4, "5/4", 4), "kappa must be above 1 / 4, or nothing is kept on purpose, and at most 1: 5/4"),
        ((4, "0.1234567891", 256), "kappa must be a fraction with a denominator of at most 8421504"),
        ((0, "0.5", 4), "units must be a whole number"),
        ((4, "0.9", 1), "values must be a whole number between 2"),
        ((4, "0.9", 1 << 17), "values must be a whole number between 2"),
    ],
)
def test_refusals(arguments: tuple[int, str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        RandomValues(*arguments)


NO_NUMBERS = "much", "nan", "1/0", "1/1e9", "1/10**9", True
NO_PROBABILITIES = "0", "-0.5", "1.5", 2, float("inf"), "1e99999", "1e-99999", "0e99999"
TOO_LONG = "0." + "1" * 63, "1/" + "9" * 63, "9" * 65


@pytest.mark.parametrize("kappa", [*NO_NUMBERS, *NO_PROBABILITIES, *TOO_LONG])
def test_what_cannot_be_a_probability_is_refused_before_it_is_made_exact(kappa: float | str) -> None:
    shown = str(kappa) if len(str(kappa)) < 65 else str(kappa)[:64] + "..."
    expected = f"such as 0.1 or 1/10, written in at most 64 characters, got {shown}"
    with pytest.raises(InputError, match=f"kappa must be a number above 0 and at most 1, {re.escape(expected)}$"):
        RandomValues(4, kappa, 4)


def test_a_number_too_long_to_be_written_is_refused() -> None:
    """Python itself writes no integer of more than 4,300 digits, and 64 characters are enough for any that is taken."""
    for huge in (10**5000, Fraction(10**5000), Fraction(10**5000 - 1, 10**5000)):
        with pytest.raises(InputError, match=r"(got|at most 1:) a number of thousands of digits$"):
            RandomValues(4, huge, 4)
    with pytest.raises(InputError, match=f"denominator of at most .*, got {'3' * 31}/1{'0' * 31}$"):
        RandomValues(4, Fraction(int("3" * 31), 10**31), 4)
    with pytest.raises(InputError, match=f"denominator of at most .*, got {'3' * 32}/1{'0' * 30}\\.\\.\\.$"):
        RandomValues(4, Fraction(int("3" * 32), 10**32), 4)
    assert RandomValues(4, "0.5" + "0" * 61, 4).kappa == Fraction(1, 2)


def test_the_largest_and_the_least_numbers() -> None:
    """The finest kappa that 31 bits can draw, and no radius below 0."""
    most = (1 << 31) - 1
    assert RandomValues(3, Fraction(most // 2 + 1, most), 2).size == most
    with pytest.raises(InputError, match=f"denominator of at most {most}"):
        RandomValues(3, Fraction((1 << 30) + 1, 1 << 31), 2)
    assert RandomValues(3, "0.5", 3).delta(most) == RandomValues(3, "0.5", 3).delta(3)
    for wrong in (-1, most + 1):
        with pytest.raises(InputError, match="rho must be a whole number between 0"):
            RandomValues(3, "0.5", 3).delta(wrong)
