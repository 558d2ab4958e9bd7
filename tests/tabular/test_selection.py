"""Choosing models by their certificates, reaching them through pipelines, and what votes hang on."""

from __future__ import annotations

import pickle
from itertools import combinations
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the tables extra is not installed")
pytest.importorskip("pandas", reason="the tables extra is not installed")

import pandas
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from sparsecert.errors import InputError
from sparsecert.metrics import certified_accuracy_score
from sparsecert.tabular import AblatedClassifier, PartitionedClassifier, certify
from tests.tabular.hashed import Hashed


def _rows(rows: int = 200, columns: int = 6) -> tuple[Any, Any]:
    """One column gives y away, the others only hint at it: the more is seen, the less robust."""
    generator = np.random.default_rng(0)
    y = generator.integers(0, 2, rows)
    hints = [np.where(generator.random(rows) < 0.85, y, 1 - y) for _ in range(columns - 1)]
    return np.stack([y, *hints], axis=1) + generator.normal(0, 0.1, (rows, columns)), y


def _tree(**settings: Any) -> AblatedClassifier:
    return AblatedClassifier(DecisionTreeClassifier(max_depth=6, random_state=0), random_state=0, **settings)


def test_certified_accuracy_chooses_a_robust_model_where_accuracy_does_not() -> None:
    X, y = _rows()
    keeps = {"keep": [2, 6]}
    by_accuracy = GridSearchCV(_tree(), keeps, cv=3).fit(X, y)
    robust = GridSearchCV(_tree(), keeps, cv=3, scoring=certified_accuracy_score(1)).fit(X, y)
    assert (by_accuracy.best_params_["keep"], robust.best_params_["keep"]) == (6, 2)
    found, own = certify(robust, X), robust.best_estimator_.certify(X)
    np.testing.assert_array_equal(found.radii, own.radii)
    score = certified_accuracy_score(1)
    assert score(robust, X, y) == ((own.names == y) & (own.radii >= 1)).mean()
    assert pickle.loads(pickle.dumps(score)) == score
    with pytest.raises(InputError, match="radius must be"):
        certified_accuracy_score(-1)


def test_a_pipeline_that_works_column_by_column_is_certified_in_its_own_columns() -> None:
    """Any change of the raw frame within the radius, enumerated, leaves the answer of the whole pipeline."""
    X, y = _rows(columns=4)
    frame = pandas.DataFrame(np.round(X), columns=list("abcd")).assign(b=np.where(X[:, 1] > 0.5, "yes", "no"))
    ordinal = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    columns = ColumnTransformer(
        [("text", ordinal, ["b"]), ("numbers", StandardScaler(), ["a", "c"])], remainder="passthrough"
    )
    search = GridSearchCV(make_pipeline(columns, _tree()), {"ablatedclassifier__keep": [1]}, cv=2).fit(frame, y)
    found = certify(search, frame[:10])
    assert found.radii.max() >= 1
    for place, (answer, radius) in enumerate(zip(found.names, found.radii, strict=True)):
        for chosen in combinations("abcd", int(radius)):
            for value in (-5.0, 0.0, 1.0):
                text = {-5.0: "maybe", 0.0: "no", 1.0: "yes"}[value]
                changed = frame.iloc[[place]].assign(**{name: text if name == "b" else value for name in chosen})
                assert search.predict(changed)[0] == answer


@pytest.mark.parametrize(
    "step",
    [
        PCA(2),
        OneHotEncoder(sparse_output=False, handle_unknown="ignore"),
        FunctionTransformer(np.cumsum, kw_args={"axis": 1}),
        ColumnTransformer([("one", StandardScaler(), [0, 1]), ("two", StandardScaler(), [1, 2, 3])]),
        ColumnTransformer([("one", StandardScaler(), [0, 1])], remainder=PCA(2)),
        make_pipeline(StandardScaler(), PCA(2)),
    ],
)
def test_a_step_that_may_spread_a_column_is_refused(step: Any) -> None:
    X, y = _rows(60, columns=4)
    fitted = make_pipeline(clone(step), _tree(keep=1)).fit(np.round(X), y)
    with pytest.raises(InputError, match="move it inside"):
        certify(fitted, X)


def test_what_does_not_certify_says_so() -> None:
    X, y = _rows(60)
    with pytest.raises(InputError, match="LogisticRegression does not certify"):
        certify(make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y), X)
    parts = PartitionedClassifier(DecisionTreeClassifier(random_state=0), parts=3).fit(X, y)
    np.testing.assert_array_equal(certify(make_pipeline("passthrough", parts), X).radii, parts.certify(X).radii)


def test_votes_hang_on_the_columns_that_an_enumeration_finds() -> None:
    X, y = _rows(64, columns=5)
    g = AblatedClassifier(Hashed(0.7, 1), keep=2, groups=["p", "p", "q", "r", "s"], copies=1, random_state=0).fit(X, y)
    found = g.explain(X[3])
    assert found.answer == g.predict(X[3:4])[0]
    votes = {}
    for mask in combinations(range(4), 2):
        shown = np.isin(g.units_, mask)
        votes[mask] = g.classes_[g.estimator_.predict(np.where(shown, X[3:4], np.nan))[0]] == found.answer
    assert len({unit.columns for unit in found.units}) == 4
    for unit in found.units:
        number = g.units_[unit.columns[0]]
        assert unit.retained == np.mean([vote for mask, vote in votes.items() if number in mask])
        assert unit.ablated == np.mean([vote for mask, vote in votes.items() if number not in mask])
    assert (np.diff([unit.difference for unit in found.units]) <= 0).all()
    with pytest.raises(InputError, match="takes one row"):
        g.explain(X[:2])


def test_the_row_of_a_frame_is_explained_by_name() -> None:
    X, y = _rows()
    frame = pandas.DataFrame(X, columns=["tell", *"bcdef"]).assign(text=np.where(X[:, 1] > 0.5, "u", "v"))
    encode = ColumnTransformer([("text", OneHotEncoder(handle_unknown="ignore"), ["text"])], remainder="passthrough")
    base = make_pipeline(encode, DecisionTreeClassifier(random_state=0))
    g = AblatedClassifier(base, keep=2, random_state=0).fit(frame, y)
    found = [g.explain(frame.iloc[place]) for place in range(20)]
    assert np.mean([each.units[0].columns == ("tell",) for each in found]) > 0.5
    assert found[0] == g.explain(frame.iloc[[0]])
    assert "tell" in str(found[0])
