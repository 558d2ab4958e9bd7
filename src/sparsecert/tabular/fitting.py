"""What `AblatedClassifier` and `PartitionedClassifier` share: checking rows, and fitting the base estimator."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from sparsecert.counts import Float64, Int64
from sparsecert.errors import InputError
from sparsecert.tabular.frames import FrameColumns, FrameValues
from sparsecert.tabular.units import units_of

MANY, FEW = 1_024, 8  # training rows whose answers are compared: all of them in one batch, and these alone


def check_training(
    classifier: Any, X: Any, y: Any, sample_weight: Any, missing: bool = True
) -> tuple[Float64, Int64, Float64 | None, FrameValues | None]:
    """The rows, the numbers of their classes, their weights, and what the rows stand for where they were a frame.

    Sets `classes_`, `units_` and `frame_` of the classifier.
    """
    rows, y, weights, values = check_table(classifier, X, y, sample_weight, missing)
    check_classification_targets(y)
    classifier.classes_, targets = np.unique(y, return_inverse=True)
    if len(classifier.classes_) < 2:
        raise InputError(f"y must have at least two classes, got one class: {classifier.classes_[0]}")
    return rows, targets, weights, values


def check_table(
    model: Any, X: Any, y: Any, sample_weight: Any, missing: bool, **settings: Any
) -> tuple[Float64, Any, Float64 | None, FrameValues | None]:
    """The rows, targets and weights, and what rows stand for where they were a frame; sets `units_` and `frame_`."""
    model.frame_ = FrameColumns.of(X)
    X, values = (X, None) if model.frame_ is None else model.frame_.encode(X)
    finite = _finite(model, missing)
    rows, y = validate_data(model, X, y, dtype=np.float64, ensure_all_finite=finite, **settings)
    weights = None if sample_weight is None else _check_sample_weight(sample_weight, rows, dtype=np.float64)
    names = getattr(model, "feature_names_in_", None)
    known = None if names is None else list(names)
    model.units_ = units_of(rows.shape[1], model.groups, model.protected, known)
    return rows, y, weights, values


def check_rows(classifier: Any, X: Any, missing: bool = True) -> tuple[Float64, FrameValues | None]:
    """The rows for a fitted classifier, and what they stand for if it was fitted on a frame."""
    check_is_fitted(classifier)
    values = None
    if classifier.frame_ is not None:
        validate_data(classifier, X, reset=False, skip_check_array=True)  # refuses other columns
        X, values = classifier.frame_.encode(X)
    finite = _finite(classifier, missing)
    return validate_data(classifier, X, reset=False, dtype=np.float64, ensure_all_finite=finite), values


def _finite(classifier: Any, missing: bool) -> bool | str:
    """Whether rows must be finite: `missing` values are, where the base estimator takes them, or sees text anyway."""
    text = classifier.frame_ is not None and not classifier.frame_.numeric
    return "allow-nan" if missing or text else True


def fit_on(
    estimator: Any, rows: Float64, targets: Int64 | Float64, weights: Float64 | None, values: FrameValues | None = None
) -> Any:
    """The estimator, fitted, on the frame that the rows stand for, if any.

    A column of numbers without a value shows 0 in all rows, since some estimators refuse it.
    """
    empty = np.isnan(rows).all(axis=0)
    seen: Any = np.where(empty if values is None else empty & ~values.coded, 0.0, rows)
    seen = seen if values is None else values(seen)
    estimator.fit(seen, targets, **({} if weights is None else {"sample_weight": weights}))
    _warn_of_influence(estimator, seen)
    return estimator


def _warn_of_influence(estimator: Any, seen: Any) -> None:
    """Warns of an estimator that answers a row otherwise among many rows than among few.

    Its copies would tell each other what is ablated in them, and certificates be false. This does not catch all.
    """
    many = seen[:: -(-len(seen) // MANY)]
    step = -(-len(many) // FEW)
    together, apart = np.asarray(estimator.predict(many))[::step], np.asarray(estimator.predict(many[::step]))
    if not np.allclose(together, apart, rtol=1e-6, equal_nan=True):  # values of a regressor may be rounded otherwise
        warnings.warn(
            f"{type(estimator).__name__} answers a row otherwise when other rows are beside it, and certificates "
            "assume that it does not; leave out what computes with the whole batch",
            stacklevel=4,
        )


def seeded(estimator: Any, generator: np.random.RandomState) -> Any:
    """The estimator with every random_state that is None set, including a pipeline's steps."""
    parameters = estimator.get_params(deep=True)
    names = sorted(name for name in parameters if name.split("__")[-1] == "random_state" and parameters[name] is None)
    return estimator.set_params(**{name: int(generator.randint(np.iinfo(np.int32).max)) for name in names})
