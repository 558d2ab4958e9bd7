"""Schemes against `slow.py`: masks, how they are drawn, and how often one meets perturbed units."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from sparsecert.bounds import corrected_alpha
from sparsecert.errors import InputError
from sparsecert.schemes import ENUMERATION, Bands, Blocks, FixedMasks, Lattice, Partition, Uniform
from sparsecert.schemes.philox import words
from tests.proof import slow
from tests.proof.everything import SCHEMES, Listed


@pytest.mark.parametrize("one", SCHEMES, ids=str)
def test_the_masks_of_a_fixed_set(one: Listed) -> None:
    if isinstance(one.scheme, FixedMasks):
        assert [tuple(mask) for mask in one.scheme.table.tolist()] == list(one.masks)


@pytest.mark.parametrize("one", SCHEMES, ids=str)
def test_delta(one: Listed) -> None:
    for rho in range(one.scheme.units + 3):
        assert one.scheme.delta(rho) == one.delta(rho)
        assert one.delta(rho) >= slow.share_met(one.masks, rho)
    table = one.scheme.deltas
    for rho, entry in enumerate(table):
        assert 0 <= Fraction(entry, 1 << 128) - one.delta(rho) <= Fraction(rho, 1 << 128)
    ends = [rho for rho in range(one.scheme.units + 1) if 2 * one.delta(rho) >= 1]
    assert len(table) == ends[0] + 1


@pytest.mark.parametrize("one", SCHEMES, ids=str)
def test_the_masks_drawn(one: Listed) -> None:
    """Word for word, for seeds, examples and draws that fill both halves of a counter."""
    scheme = one.scheme
    for seed, example, draw in [(0, 0, 0), (5, 3, 7), (2**64 - 1, 2**32 - 1, 2**40 - 1), (2**40 + 9, 77, 2**41 + 12)]:
        found = tuple(scheme.masks(seed, [example], [draw])[0, 0].tolist())
        if isinstance(scheme, FixedMasks):
            expected = one.masks[slow.random_words(seed, example, draw, 1)[0] * len(one.masks) >> 64]
        else:
            expected = slow.uniform_mask(scheme.units, sum(one.masks[0]), seed, example, draw)
        assert found == expected
    if isinstance(scheme, FixedMasks):
        draws = [ENUMERATION, ENUMERATION + 1, ENUMERATION + len(one.masks), ENUMERATION + 3 * len(one.masks) - 1]
        shown = scheme.masks(4, [6], draws)[0].tolist()
        assert [tuple(mask) for mask in shown] == [one.masks[n % len(one.masks)] for n in (0, 1, 0, -1)]
        before = scheme.masks(4, [6], [ENUMERATION - 1])[0, 0].tolist()
        assert tuple(before) == one.masks[slow.random_words(4, 6, ENUMERATION - 1, 1)[0] * len(one.masks) >> 64]


@pytest.mark.parametrize("one", SCHEMES, ids=str)
def test_the_distance_from_even_and_what_it_leaves_of_alpha(one: Listed) -> None:
    assert one.scheme.nonuniformity == slow.nonuniformity(one.sizes)
    for alpha in (Fraction(1, 20), Fraction(1, 3), Fraction(1, 1 << 30), 1 - Fraction(1, 1 << 40)):
        exact = alpha - 1_000 * one.scheme.nonuniformity
        left = corrected_alpha(alpha, one.scheme, 1_000)
        assert exact * (1 - Fraction(1, 1 << 29)) < left <= exact
        assert left.numerator < 1 << 31
        assert left.denominator & (left.denominator - 1) == 0


def test_random_words() -> None:
    for count in (1, 2, 3, 8):
        high, low = words(2**50 + 3, torch.tensor([0, 9, 2**32 - 1]), torch.tensor([4, 2**40 + 1, 2**47]), count)
        for row, (example, draw) in enumerate(((0, 4), (9, 2**40 + 1), (2**32 - 1, 2**47))):
            found = [(a << 32) + b for a, b in zip(high[row].tolist(), low[row].tolist(), strict=True)]
            assert found == slow.random_words(2**50 + 3, example, draw, count)


def test_every_one_of_the_numbers_is_checked() -> None:
    for examples, draws in (([5, -1], [0]), ([-1, 5], [0]), ([0, 1 << 32], [0]), ([0], [1 << 48, 3]), ([0], [3, -2])):
        with pytest.raises(InputError, match="must be between 0"):
            Uniform(4, 2).masks(0, examples, draws)


def test_alpha_at_its_ends() -> None:
    """One that no float holds is taken as it is; one that is all paid away is refused."""
    assert 0 < corrected_alpha(Fraction(1, 10**400), Uniform(9, 9), 10) <= Fraction(1, 10**400)
    scheme = Uniform(9, 2)
    with pytest.raises(InputError, match="too small"):
        corrected_alpha(100 * scheme.nonuniformity, scheme, 100)
    assert corrected_alpha(101 * scheme.nonuniformity, scheme, 100) <= scheme.nonuniformity


def test_every_small_lattice() -> None:
    for height in range(1, 5):
        for width in range(1, 5):
            for parts in range(1, min(6, height * width) + 1):
                scheme, expected = Lattice(height, width, parts), slow.lattice_masks(height, width, parts, 1)
                if expected is None:
                    with pytest.raises(ValueError, match="lattice partitions"):
                        _ = scheme.table
                else:
                    assert [tuple(mask) for mask in scheme.table.tolist()] == expected


class Given(FixedMasks):
    """Masks that retain some units more often than others."""

    def __init__(self, table: list[list[int]]) -> None:
        self.units, self.given = len(table[0]), np.array(table, dtype=bool)

    def _table(self) -> npt.NDArray[np.bool_]:
        return self.given

    def config(self) -> dict[str, Any]:
        raise NotImplementedError


def test_delta_where_some_units_are_retained_more_often_than_others() -> None:
    for table in ([[1, 1, 0, 1], [0, 1, 1, 0], [0, 1, 0, 0], [0, 0, 0, 1]], [[0, 1, 0], [0, 1, 0], [1, 0, 1]]):
        scheme, masks = Given(table), [tuple(map(bool, row)) for row in table]
        assert [scheme.delta(rho) for rho in range(6)] == [slow.share_charged(masks, rho) for rho in range(6)]
        with pytest.raises(ValueError, match="read-only"):
            scheme.table[0, 0] = True


# The number, how a scheme is made with it free, what the number may be at least, and at most.
LIMITS: list[tuple[str, Callable[[int], object], int, int]] = [
    ("units", lambda n: Uniform(n, 1), 1, (1 << 31) - 1),
    ("keep", lambda n: Uniform(9, n), 1, 9),
    ("units", lambda n: Partition(n, 1), 1, (1 << 31) - 1),
    ("parts", lambda n: Partition(9, n), 1, 9),
    ("rounds", lambda n: Partition(9, 2, n), 1, 1 << 16),
    ("seed", lambda n: Partition(9, 2, 1, n), 0, (1 << 64) - 1),
    ("height", lambda n: Lattice(n, 9, 1), 1, 1 << 12),
    ("width", lambda n: Lattice(9, n, 1), 1, 1 << 12),
    ("parts", lambda n: Lattice(3, 4, n), 1, 12),
    ("parts", lambda n: Lattice(100, 100, n), 1, 1 << 10),
    ("rounds", lambda n: Lattice(9, 9, 3, n), 1, 1 << 10),
    ("height", lambda n: Blocks(n, 1, 1), 1, 1 << 12),
    ("width", lambda n: Blocks(1, n, 1), 1, 1 << 12),
    ("height|blocks", lambda n: Blocks(n, 4, 1), 1, 1 << 10),
    ("size", lambda n: Blocks(4, 6, n), 1, 4),
    ("size", lambda n: Blocks(6, 4, n), 1, 4),
    ("height", lambda n: Bands(n, 3, 1), 1, 1 << 12),
    ("width", lambda n: Bands(3, n, 1), 1, 1 << 12),
    ("size", lambda n: Bands(4, 6, n), 1, 6),
    ("size", lambda n: Bands(4, 6, n, True), 1, 4),
    ("rho", lambda n: Uniform(9, 2).delta(n), 0, (1 << 31) - 1),
    ("rho", lambda n: Lattice(2, 3, 3).delta(n), 0, (1 << 31) - 1),
]


@pytest.mark.parametrize(("name", "made", "least", "most"), LIMITS)
def test_what_a_number_may_be(name: str, made: Callable[[int], object], least: int, most: int) -> None:
    for allowed in (least, most):
        made(allowed)
    for refused in (least - 1, most + 1):
        with pytest.raises(InputError, match=f"^({name}) "):
            made(refused)
