"""The damage of perturbed units, checked against every choice of them."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest

from sparsecert.certificates import enumerated
from sparsecert.certificates.adversary import PerturbedUnits
from sparsecert.certificates.enumerated import EnumeratedUnits
from sparsecert.schemes import AllSubsets, Partition

MASKS = [AllSubsets(6, 2).table, AllSubsets(5, 3).table, AllSubsets(4, 1).table, Partition(7, 3, rounds=2).table]
STAR = np.array([[1, 1, 0, 0, 0], [1, 0, 1, 0, 0], [1, 0, 0, 1, 0], [1, 0, 0, 0, 1], [0, 1, 1, 0, 0]], dtype=bool)


def _worst(masks: np.ndarray, costs: np.ndarray, rho: int) -> int:
    return max(
        int(costs[masks[:, list(perturbed)].any(axis=1)].sum())
        for perturbed in combinations(range(masks.shape[1]), rho)
    )


def _stated(masks: np.ndarray, costs: np.ndarray, entries: int) -> list[int]:
    """What the class says of each number of units: the worst set, or the smaller of the two bounds."""
    overlap = bool((masks.sum(axis=0) > 1).any())
    charges = sorted(costs @ masks if overlap else costs, reverse=True)
    stated = [0]
    for rho in range(1, masks.shape[1] + 1):
        corrected_alpha = min(int(sum(charges[:rho])), int(costs.sum()))
        listed = len(masks) * comb(masks.shape[1], rho) <= entries or not overlap
        grown = corrected_alpha if rho == 1 else stated[-1] * rho // (rho - 1)
        stated.append(_worst(masks, costs, rho) if listed else min(corrected_alpha, grown))
    return stated


@pytest.mark.parametrize("masks", [*MASKS, STAR], ids=lambda masks: str(masks.shape))
@pytest.mark.parametrize("entries", [1 << 25, 15 * 15, 15 * 15 - 1, 120, 5 * 10, 5 * 10 - 1, 0])
def test_radii_are_those_of_every_set_where_sets_are_listed_and_never_too_large(
    masks: np.ndarray, entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every budget at which the radius changes: for many costs, for one, and for arrays of them."""
    monkeypatch.setattr(enumerated, "MOST_ENTRIES", entries)
    adversary, generator, units = EnumeratedUnits(masks), np.random.default_rng(0), masks.shape[1]
    for costs in (np.ones(len(masks), dtype=np.int64), *generator.integers(0, 3, (12, len(masks)))):
        stated, worst = _stated(masks, costs, entries), [_worst(masks, costs, rho) for rho in range(units + 1)]
        assert all(one >= other for one, other in zip(stated, worst, strict=True))
        assert stated == worst or entries < 1 << 25
        budgets = np.arange(-2, costs.sum() + 2)
        expected = [next((rho - 1 for rho, one in enumerate(stated) if one > budget), units) for budget in budgets]
        several = np.broadcast_to(costs, (len(budgets), len(costs)))
        assert adversary.radii(several, budgets).tolist() == expected
        assert adversary.radii(several[None, :, :], budgets[None]).tolist() == [expected]
        assert adversary.radii(costs, budgets[2]).tolist() == expected[2]


def test_costs_too_large_for_floats_fall_back_on_the_bound_in_integers() -> None:
    """Up to 2**24 in all they are added up exactly, beyond it the units are charged: of any of the sets of costs."""
    masks = np.concatenate([AllSubsets(5, 2).table] * 3)
    plain, adversary, large = PerturbedUnits(masks), EnumeratedUnits(masks), np.full(30, (1 << 24) // 30)
    large[:16] += 1
    assert large.sum() == 1 << 24
    worst = np.array([_worst(masks, large, 2)])
    assert adversary.radii(large[None], worst).tolist() == [2] > plain.radii(large[None], worst).tolist()
    for costs in (np.stack((large, large)), np.zeros((2, 30), dtype=np.int64)):
        costs[1] = large
        costs[1, 29] += 1
        budgets = np.array([_worst(masks, row, 2) for row in costs])
        assert adversary.radii(costs, budgets).tolist() == plain.radii(costs, budgets).tolist()
    assert adversary.radii(np.zeros((0, 30), dtype=np.int64), np.zeros(0, dtype=np.int64)).shape == (0,)
