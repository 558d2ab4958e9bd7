"""Every set of k units as a fixed set of masks."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest

from sparsecert.errors import InputError
from sparsecert.schemes import AllSubsets, Uniform, from_config


@pytest.mark.parametrize(("units", "keep"), [(1, 1), (5, 2), (6, 6), (7, 3)])
def test_every_set_is_there_once_and_delta_is_the_share_that_meets_altered_units(units: int, keep: int) -> None:
    scheme = AllSubsets(units, keep)
    assert {tuple(np.flatnonzero(mask)) for mask in scheme.table} == set(combinations(range(units), keep))
    assert len(scheme.table) == comb(units, keep)
    for rho in range(units + 1):
        shares = {
            Fraction(int(scheme.table[:, altered].any(axis=1).sum()), len(scheme.table))
            for altered in combinations(range(units), rho)
        }
        assert shares == {scheme.delta(rho)} == {Uniform(units, keep).delta(rho)}
    assert all(bound >= Uniform(units, keep).delta(rho) * (1 << 128) for rho, bound in enumerate(scheme.deltas))
    assert from_config(scheme.config()) == scheme


def test_too_many_masks_are_refused() -> None:
    with pytest.raises(InputError, match="too many to list"):
        AllSubsets(100, 50)
