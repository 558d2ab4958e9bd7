"""Boosted trees as arrays, checked against the predictions of scikit-learn and LightGBM."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the tables extra is not installed")

from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from sparsecert.errors import InputError
from sparsecert.tabular.trees import Trees


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_the_scores_are_those_of_scikit_learn(classes: int, missing: float) -> None:
    generator = np.random.default_rng(0)
    rows = np.round(generator.normal(size=(500, 5)), 1)
    y = (np.abs(rows[:, 0] * 2 + rows[:, 1]).astype(int)) % classes
    rows[generator.random(rows.shape) < missing] = np.nan
    fitted = HistGradientBoostingClassifier(max_iter=15, random_state=0).fit(rows, y)
    rows[generator.random(rows.shape) < 0.3] = np.nan
    trees = Trees.of(fitted)
    expected = fitted.decision_function(rows)
    expected = np.stack((np.zeros(500), expected), axis=1) if classes == 2 else expected
    np.testing.assert_allclose(trees.scores(rows), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(trees.classes_, fitted.classes_)
    assert (trees.predict(rows) == fitted.predict(rows)).mean() > 0.99
    assert trees.predict(rows[:0]).shape == (0,)


def _lightgbm(**settings: Any) -> Any:
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    return lightgbm.LGBMClassifier(n_estimators=15, min_child_samples=5, verbose=-1, random_state=0, **settings)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_the_scores_are_those_of_lightgbm(classes: int, missing: float) -> None:
    """Also of missing values where training had none; and of a class too rare to be split off."""
    generator = np.random.default_rng(0)
    rows = np.round(generator.normal(size=(500, 5)), 1)
    y = (np.abs(rows[:, 0] * 2 + rows[:, 1]).astype(int)) % classes
    rows[generator.random(rows.shape) < missing] = np.nan
    fitted = _lightgbm().fit(rows, y)
    rows[generator.random(rows.shape) < 0.3] = np.nan
    expected = fitted.predict(rows, raw_score=True)
    expected = np.stack((np.zeros(500), expected), axis=1) if classes == 2 else expected
    np.testing.assert_allclose(Trees.of(fitted).scores(rows), expected, rtol=1e-12, atol=1e-12)
    few = _lightgbm().fit(rows[:30], np.arange(30) // 10)  # hardly any split
    np.testing.assert_allclose(Trees.of(few).scores(rows), few.predict(rows, raw_score=True), rtol=1e-12, atol=1e-12)


def test_trees_of_lightgbm_that_go_another_way_are_refused() -> None:
    rows, y = np.arange(40.0)[:, None] % 4, np.arange(40) % 2
    for settings, fit in (({}, {"categorical_feature": [0]}), ({"zero_as_missing": True}, {})):
        fitted = _lightgbm(min_data_per_group=1, cat_smooth=0, **settings).fit(rows, y, **fit)
        with pytest.raises(InputError, match="categorical splits, or 0 for missing"):
            Trees.of(fitted)
    forest = _lightgbm(boosting_type="rf", subsample=0.5, subsample_freq=1).fit(rows, y)
    with pytest.raises(InputError, match="random forest"):
        Trees.of(forest)


def test_other_estimators_and_categorical_splits_are_refused() -> None:
    rows, y = np.arange(40.0)[:, None] % 4, np.arange(40) % 2
    with pytest.raises(InputError, match="LogisticRegression"):
        Trees.of(LogisticRegression().fit(rows, y))
    with pytest.raises(InputError, match="categorical splits"):
        Trees.of(HistGradientBoostingClassifier(categorical_features=[0], min_samples_leaf=1).fit(rows, y))


def test_trees_that_go_in_circles_are_refused() -> None:
    rows, y = np.arange(40.0)[:, None], np.arange(40) >= 20
    trees = Trees.of(HistGradientBoostingClassifier(max_iter=1, min_samples_leaf=2).fit(rows, y))
    nodes = {name: array.copy() for name, array in trees.nodes.items()}
    nodes["left"][0] = 0
    with pytest.raises(InputError, match="damaged"):
        Trees(nodes, trees.roots, trees.baseline)
