"""Frames with text, categories and dates: what the base estimator sees, and certificates by enumeration."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the tables extra is not installed")
pytest.importorskip("pandas", reason="the tables extra is not installed")

import pandas
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from sparsecert.errors import InputError
from sparsecert.tabular import AblatedClassifier, PartitionedClassifier, greedy_attack
from sparsecert.tabular.frames import FrameColumns

JOBS = ["Private", "State-gov", "None of these"]
COLOURS = pandas.CategoricalDtype(["red", "green", "blue"])
DAYS = pandas.to_datetime(["2020-01-01", "2021-06-15", "2026-11-17"])
CHOICES: dict[str, list[Any]] = {  # what an attacker may write into a column; the last but one is unseen in training
    "job": [*JOBS[:2], "Astronaut", None],
    "colour": ["red", "green", "mauve", None],
    "since": [*DAYS[:2], pandas.Timestamp("1969-07-20 20:17"), pandas.NaT],
    "age": [20.0, 60.0, -1.0, np.nan],
    "left": [True, False, None],
}


def _frame(rows: int = 160, seed: int = 0) -> tuple[Any, Any]:
    """Columns of each type that hint at y, with missing values in all."""
    generator = np.random.default_rng(seed)
    y = generator.integers(0, 2, rows)

    def hint() -> Any:
        return np.where(generator.random(rows) < 0.85, y, 1 - y)

    def gaps(values: Any) -> Any:
        return pandas.Series(values).where(generator.random(rows) < 0.95)

    frame = pandas.DataFrame(
        {
            "job": gaps(np.array(JOBS, dtype=object)[hint()]),
            "colour": gaps(np.array(COLOURS.categories, dtype=object)[hint()]).astype(COLOURS),
            "since": gaps(DAYS[hint()]),
            "age": gaps(20.0 + 40 * hint()),
            "left": gaps(hint().astype(bool)).astype("boolean"),
        }
    )
    return frame, np.array(["no", "yes"])[y]


def _days(frame: Any) -> Any:
    """Dates as numbers; mere text would be refused here."""
    return frame.apply(lambda column: (column - pandas.Timestamp(0)) / pandas.Timedelta(days=1)).fillna(-1.0)


def _encoder() -> Any:
    """A column transformer by name and type; its encoder learns from ablated rows."""
    return ColumnTransformer(
        [
            ("text", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["job", "colour"]),
            ("dates", FunctionTransformer(_days), ["since"]),
            ("numbers", FunctionTransformer(_filled), make_column_selector(dtype_include="number")),
        ]
    )


def _filled(frame: Any) -> Any:
    return frame.fillna(-1.0)


def _mixing() -> Any:
    """A pipeline whose components mix all columns."""
    return make_pipeline(_encoder(), StandardScaler(), PCA(4, random_state=0), DecisionTreeClassifier(random_state=0))


def _lightgbm() -> Any:
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    settings = {"deterministic": True, "force_col_wise": True, "n_jobs": 1, "verbose": -1}
    return lightgbm.LGBMClassifier(n_estimators=10, min_child_samples=5, min_data_per_group=5, cat_smooth=1, **settings)


def _row_with(row: Any, changes: dict[str, Any]) -> Any:
    changed = row.copy()
    for name, value in changes.items():
        known = row[name].dtype
        value = None if name == "colour" and value not in COLOURS.categories else value
        changed[name] = pandas.Series([value], index=row.index, dtype=known)
    return changed


def _all_changes(row: Any, radius: int) -> Any:
    names = [name for name in CHOICES if name in row.columns]
    rows = [
        _row_with(row, dict(zip(chosen, values, strict=True)))
        for chosen in combinations(names, radius)
        for values in product(*(CHOICES[name] for name in chosen))
    ]
    return pandas.concat(rows, ignore_index=True)


class Recording(ClassifierMixin, BaseEstimator):
    """Keeps every frame it is asked about."""

    asked: list[Any] = []  # noqa: RUF012, shared by clones

    def fit(self, X: Any, y: Any) -> Recording:
        self.classes_ = np.unique(y)
        self.fitted_on_ = X
        return self

    def predict(self, X: Any) -> Any:
        self.asked.append(X)
        return np.zeros(len(X), dtype=int)


def test_a_copy_holds_the_retained_values_of_its_row_and_missing_values() -> None:
    """By every mask: values and types as in the frame, in training and for values not seen there."""
    frame, y = _frame()
    g = AblatedClassifier(Recording(), keep=2, random_state=0).fit(frame, y)
    for copies, source in ((g.estimator_.fitted_on_, frame), (None, _all_changes(frame.iloc[[0]], 1))):
        if copies is None:
            Recording.asked.clear()
            g.votes(source)
            copies = pandas.concat(Recording.asked).tail(10 * len(source)).reset_index(drop=True)  # after the probe
        assert list(copies.columns) == list(frame.columns)
        for name in ("job", "colour", "since"):
            assert copies[name].dtype == frame[name].dtype
        each = source.loc[source.index.repeat(len(copies) // len(source))].reset_index(drop=True)
        shown = copies.notna().to_numpy()
        assert (shown.sum(axis=1) <= 2).all()
        for place, name in enumerate(frame.columns):
            kept = shown[:, place]
            wanted = each[name][kept].astype(float) if name == "left" else each[name][kept]
            assert copies[name][kept].tolist() == wanted.tolist()
        if len(copies) == 10 * len(source):  # all masks: each column is shown by 4 of 10, unless it is missing
            np.testing.assert_array_equal(shown.sum(axis=0), 4 * source.notna().sum())


@pytest.mark.parametrize(
    "base",
    [
        pytest.param(_mixing, id="mixing"),
        pytest.param(lambda: make_pipeline(_encoder(), StandardScaler(), LogisticRegression()), id="linear"),
    ],
)
@pytest.mark.parametrize("keep", [1, 2])
def test_no_perturbation_of_columns_within_the_radius_changes_an_answer(base: Any, keep: int) -> None:
    """Values of every type, unseen and missing ones, before a pipeline that encodes, and mixes, the columns."""
    frame, y = _frame()
    g = AblatedClassifier(base(), keep=keep, copies=4, random_state=0).fit(frame, y)
    assert g.exact_
    found = g.certify(frame[:12])
    assert (g.certify(frame).certified(y, 1)).mean() > 0.2
    for place, (answer, radius) in enumerate(zip(found.names, found.radii, strict=True)):
        assert (g.predict(_all_changes(frame.iloc[[place]], int(radius))) == answer).all()
    assert found.radii.max() >= 1


@pytest.mark.parametrize("base", [lambda: HistGradientBoostingClassifier(max_iter=10, min_samples_leaf=5), _lightgbm])
def test_categories_of_boosted_trees_are_ablated_as_columns(base: Any) -> None:
    frame, y = _frame()
    frame = frame[["colour", "age", "left"]].assign(more=frame["colour"].shift(1), job=frame["job"].astype("category"))
    g = AblatedClassifier(base(), keep=2, random_state=0).fit(frame, y)
    if isinstance(g.estimator_, HistGradientBoostingClassifier):
        assert g.estimator_.is_categorical_.tolist() == [True, False, False, True, True]
    else:
        assert g.estimator_.booster_.pandas_categorical is not None
    found = g.certify(frame[:10])
    assert found.radii.max() >= 1
    for place, (answer, radius) in enumerate(zip(found.names, found.radii, strict=True)):
        changes = _all_changes(frame.iloc[[place]].drop(columns="job"), int(radius))
        assert (g.predict(changes.assign(job=frame["job"].iloc[place]).astype(frame.dtypes)) == answer).all()
    other = frame[:10].assign(colour=frame["colour"][:10].cat.set_categories(["blue", "mauve", "green", "red"]))
    np.testing.assert_array_equal(g.certify(other).radii, found.radii)  # categories are known by value, not by number


def test_the_order_and_number_of_rows_do_not_matter_to_what_is_fitted() -> None:
    frame, y = _frame(40)
    g = AblatedClassifier(Recording(), keep=2, copies=2, random_state=0)
    one = g.fit(frame, y).estimator_.fitted_on_
    other = g.fit(frame[::-1], y[::-1]).estimator_.fitted_on_
    pairs = one.reset_index(drop=True), other[::-1].reset_index(drop=True)
    swapped = pairs[1].iloc[np.arange(80).reshape(-1, 2)[:, ::-1].reshape(-1)].reset_index(drop=True)
    pandas.testing.assert_frame_equal(pairs[0], swapped)


def test_a_frame_of_numbers_is_certified_as_an_array_is() -> None:
    frame, y = _frame()
    numbers = frame[["age"]].assign(left=frame["left"].astype(float), twice=2 * frame["age"], of="3").astype(float)
    settings: dict[str, Any] = {"keep": 2, "random_state": 0}
    for base in (DecisionTreeClassifier(random_state=0), make_pipeline(StandardScaler(), LogisticRegression())):
        one = AblatedClassifier(base, **settings).fit(numbers, y).certify(numbers)
        other = AblatedClassifier(base, **settings).fit(numbers.to_numpy(), y).certify(numbers.to_numpy())
        np.testing.assert_array_equal(one.radii, other.radii)
        np.testing.assert_array_equal(one.names, other.names)
    by_name = make_pipeline(ColumnTransformer([("age", "passthrough", ["age"])]), HistGradientBoostingClassifier())
    assert len(AblatedClassifier(by_name, null="nan", **settings).fit(numbers, y).predict(numbers[:3])) == 3


def test_random_masks_and_several_processes_answer_alike() -> None:
    frame, y = _frame()
    settings: dict[str, Any] = {"keep": 2, "most_masks": 0, "n": 200, "random_state": 0}
    g = AblatedClassifier(make_pipeline(_encoder(), StandardScaler(), LogisticRegression()), **settings).fit(frame, y)
    alone = g.certify(frame[:70])
    assert not alone.exact
    together = g.set_params(n_jobs=2).certify(frame[:70])
    np.testing.assert_array_equal(alone.radii, together.radii)


def test_parts_learn_from_text_of_their_own() -> None:
    """Columns may be replaced in all training rows and in the row: the answer stays within the radius."""
    frame, y = _frame()
    encode = OneHotEncoder(handle_unknown="ignore")
    g = PartitionedClassifier(make_pipeline(encode, LogisticRegression()), parts=5, random_state=0).fit(frame, y)
    found = g.certify(frame[:30])
    assert found.radii.max() >= 1
    for name in frame.columns:
        poisoned = frame.assign(**{name: frame[name].sample(frac=1, random_state=1).to_numpy()})
        poisoned[name] = poisoned[name].astype(frame[name].dtype)
        again = g.fit(poisoned, y).predict(poisoned[:30])
        safe = found.radii >= 1
        assert (again == found.names)[safe].all()


def test_what_does_not_fit_the_training_frame_is_refused() -> None:
    frame, y = _frame(40)
    g = AblatedClassifier(Recording(), keep=2).fit(frame, y)
    with pytest.warns(UserWarning, match="feature names"), pytest.raises(InputError, match="give it a frame"):
        g.predict(np.zeros((2, 5)))
    with pytest.raises(InputError, match="column age was numeric in training"):
        g.predict(frame.assign(age="old"))
    with pytest.raises(InputError, match="column since cannot be read as datetime"):
        g.predict(frame.assign(since="soon"))
    with pytest.raises(ValueError, match="feature names"):
        g.predict(frame.drop(columns="job"))
    with pytest.raises(InputError, match="null indicator is for numbers"):
        AblatedClassifier(Recording(), keep=2, null="indicator").fit(frame, y)
    with pytest.raises(InputError, match="takes rows of numbers"):
        greedy_attack(g, frame.iloc[0], y[0], frame)


def test_numbers_among_objects_stay_numbers() -> None:
    frame = pandas.DataFrame(
        {"a": pandas.Series([1, 2.5, None], dtype=object), "b": pandas.Series([True, False, True])}
    )
    columns = FrameColumns.of(frame)
    assert columns is not None
    assert columns.numeric
    np.testing.assert_array_equal(columns.encode(frame)[0].to_numpy(), [[1, 1], [2.5, 0], [np.nan, 1]])


def test_values_come_back_as_they_are_whatever_stands_beside_them() -> None:
    """Python takes 1, 1.0 and True for equal; an encoder may not, and must not see one row's value for another's."""
    mixed = [1, True, 1.0, "1", -0.0, 0, False, "", ("a", 1), None]
    frame = pandas.DataFrame({"mixed": pandas.Series(mixed, dtype=object), "text": ["a", "b"] * 5})
    columns = FrameColumns.of(frame)
    assert columns is not None
    for order in (slice(None), slice(None, None, -1)):
        numbers, values = columns.encode(frame[order])
        back = values(numbers.to_numpy())["mixed"].tolist()
        assert [repr(one) for one in back if one is not None and one == one] == [repr(one) for one in mixed[:-1][order]]
        assert values(numbers.to_numpy())["text"].tolist() == frame["text"][order].tolist()


def test_an_encoder_that_looks_at_the_whole_batch_is_pointed_at() -> None:
    """Other copies would tell what is ablated in this one."""
    frame, y = _frame()
    counted = make_pipeline(FunctionTransformer(_counts), DecisionTreeClassifier(random_state=0))
    with pytest.warns(UserWarning, match="when other rows are beside it"):
        fitted = AblatedClassifier(counted, keep=2, random_state=0).fit(frame[["job", "colour", "since"]], y)
    assert set(fitted.classes_) == set(y)


def _counts(frame: Any) -> Any:
    """How often each value occurs among the rows at hand."""
    return frame.apply(lambda column: column.map(column.value_counts()).astype(float).fillna(0.0))
