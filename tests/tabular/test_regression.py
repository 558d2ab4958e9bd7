"""The median of parts: bounds against every change of its values, and against perturbed training tables."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the tables extra is not installed")

from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from sparsecert.errors import InputError
from sparsecert.tabular import CertifiedValues, PartitionedRegressor


@parametrize_with_checks(
    [PartitionedRegressor(Ridge(), parts=1), PartitionedRegressor(DecisionTreeRegressor(max_depth=5), parts=1)]
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_suite(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("parts", [1, 2, 3, 4, 5])
def test_bounds_are_the_extremes_over_all_changes_of_so_many_values(parts: int) -> None:
    generator = np.random.default_rng(parts)
    ordered = np.sort(generator.integers(0, 6, (4, parts)).astype(float), axis=1)  # with ties
    found, middle = CertifiedValues(ordered), (parts - 1) // 2
    np.testing.assert_array_equal(found.values, np.sort(ordered, axis=1)[:, middle])
    for radius in range(parts + 1):
        low, high = found.bounds(radius)
        for row in range(len(ordered)):
            medians = []
            for places in combinations(range(parts), radius):
                for values in product((-np.inf, 2.5, np.inf), repeat=radius):
                    changed = ordered[row].copy()
                    changed[list(places)] = values
                    medians.append(np.sort(changed)[middle])
            assert (min(medians), max(medians)) == (low[row], high[row])


def test_radii_are_the_largest_with_bounds_inside() -> None:
    found = CertifiedValues(np.array([[1.0, 2, 3, 4, 9], [3, 3, 3, 3, 3], [0, 1, 5, 6, 7]]))
    assert found.radii(2, 4).tolist() == [1, 2, -1]
    assert found.radii(found.values - 6, found.values + 6).tolist() == [2, 2, 2]
    assert found.radii([0, 0, 5], [3, 9, 5]).tolist() == [0, 2, 0]


def test_perturbed_columns_in_training_and_at_test_stay_within_the_bounds() -> None:
    generator = np.random.default_rng(0)
    X = generator.normal(size=(80, 7))
    y = X.sum(axis=1)
    g = PartitionedRegressor(DecisionTreeRegressor(max_depth=3), parts=5, random_state=0).fit(X, y)
    found = g.certify(X)
    np.testing.assert_array_equal(g.predict(X), found.values)
    for radius in (1, 2):
        low, high = found.bounds(radius)
        assert (low < high).any()
        for chosen in combinations(range(7), radius):
            perturbed = X.copy()
            perturbed[:, chosen] = 100 * generator.normal(size=(80, radius))
            again = g.fit(perturbed, y).predict(perturbed)
            assert ((low <= again) & (again <= high)).all()


def test_a_part_without_a_value_is_refused() -> None:
    class Lost(Ridge):
        def predict(self, X: Any) -> Any:
            return np.full(len(X), np.nan)

    X = np.random.default_rng(0).normal(size=(20, 3))
    with pytest.raises(InputError, match="gives NaN"):
        PartitionedRegressor(Lost(), parts=3).fit(X, X[:, 0]).predict(X)
