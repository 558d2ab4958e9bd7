"""Every set of k units as a fixed set of masks."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest

from sparsecert.errors import InputError
from sparsecert.schemes import AllSubsets, Uniform, from_config
from sparsecert.schemes.all_subsets import subsets_table


@pytest.mark.parametrize(("units", "keep"), [(1, 1), (5, 2), (6, 6), (7, 3)])
def test_every_set_is_there_once_and_delta_is_the_share_that_meets_perturbed_units(units: int, keep: int) -> None:
    scheme = AllSubsets(units, keep)
    assert {tuple(np.flatnonzero(mask)) for mask in scheme.table} == set(combinations(range(units), keep))
    assert len(scheme.table) == comb(units, keep)
    for rho in range(units + 1):
        shares = {
            Fraction(int(scheme.table[:, perturbed].any(axis=1).sum()), len(scheme.table))
            for perturbed in combinations(range(units), rho)
        }
        assert shares == {scheme.delta(rho)} == {Uniform(units, keep).delta(rho)}
    assert all(bound >= Uniform(units, keep).delta(rho) * (1 << 128) for rho, bound in enumerate(scheme.deltas))
    assert from_config(scheme.config()) == scheme


def test_too_many_masks_are_refused() -> None:
    """One unit of 2**17 makes the most that are listed."""
    assert AllSubsets(1 << 17, 1).units == 1 << 17
    for units, keep in ((100, 50), ((1 << 17) + 1, 1)):
        with pytest.raises(InputError, match="too many to list"):
            AllSubsets(units, keep)


def test_sets_of_any_size_up_to_all_units() -> None:
    """There is one empty set, and none of fewer units than that or of more than there are."""
    assert subsets_table(3, 0).tolist() == [[False] * 3]
    assert subsets_table(3, 3).tolist() == [[True] * 3]
    for wrong in (-1, 4):
        with pytest.raises(InputError, match="size must be a whole number between 0 and 3"):
            subsets_table(3, wrong)
