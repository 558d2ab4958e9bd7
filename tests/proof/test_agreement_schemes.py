"""Schemes against `slow.py`: masks, how they are drawn, and how often one meets altered units."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sparsecert.bounds import charged
from sparsecert.schemes import ENUMERATION, FixedMasks, Lattice
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
        left = charged(alpha, one.scheme, 1_000)
        assert exact * (1 - Fraction(1, 1 << 29)) < left <= exact
        assert left.numerator < 1 << 31
        assert left.denominator & (left.denominator - 1) == 0


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
