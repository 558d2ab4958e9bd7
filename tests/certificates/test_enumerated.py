"""The damage of altered units, held against every choice of them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from sparsecert.certificates import enumerated
from sparsecert.certificates.damage import AlteredUnits
from sparsecert.certificates.enumerated import EnumeratedUnits
from sparsecert.schemes import AllSubsets, Partition

MASKS = [AllSubsets(6, 2).table, AllSubsets(5, 3).table, AllSubsets(4, 1).table, Partition(7, 3, rounds=2).table]


def _worst(masks: np.ndarray, costs: np.ndarray, rho: int) -> int:
    return max(
        int(costs[masks[:, list(altered)].any(axis=1)].sum()) for altered in combinations(range(masks.shape[1]), rho)
    )


@pytest.mark.parametrize("masks", MASKS, ids=lambda masks: str(masks.shape))
@pytest.mark.parametrize("entries", [1 << 25, 120, 0])
def test_bounds_are_exact_where_sets_are_listed_and_never_too_small(
    masks: np.ndarray, entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enumerated, "MOST_ENTRIES", entries)
    generator = np.random.default_rng(0)
    costs = generator.integers(0, 3, (40, len(masks)))
    damage = EnumeratedUnits(masks)
    bounds, plain = damage.bounds(costs), AlteredUnits(masks).bounds(costs)
    worst = np.array([[_worst(masks, row, rho) for rho in range(masks.shape[1] + 1)] for row in costs])
    assert (bounds >= worst).all()
    assert (bounds <= plain).all()
    if entries == 1 << 25:
        assert (bounds == worst).all()
    budgets = generator.integers(-1, costs.sum(axis=1) + 2)
    expected = (np.maximum.accumulate(bounds, axis=1) <= budgets[:, None]).sum(axis=1) - 1
    np.testing.assert_array_equal(damage.radii(costs, budgets), expected)


def test_costs_too_large_for_floats_fall_back_on_the_bound_in_integers() -> None:
    masks = AllSubsets(5, 2).table
    large = np.concatenate([masks] * 3)
    costs = (1 << 20) - np.arange(len(large))[None]
    assert costs.sum() > 1 << 24
    np.testing.assert_array_equal(EnumeratedUnits(large).bounds(costs), AlteredUnits(large).bounds(costs))
