"""Certificates through an outer pipeline or search of scikit-learn."""

from __future__ import annotations

from itertools import chain
from typing import Any

from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectKBest, SelectPercentile, VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

from sparsecert.errors import InputError
from sparsecert.results import Certifications

COLUMN_BY_COLUMN = (
    *(Binarizer, MaxAbsScaler, MinMaxScaler, OrdinalEncoder, PowerTransformer, QuantileTransformer, RobustScaler),
    *(StandardScaler, SelectKBest, SelectPercentile, VarianceThreshold),
)


def certify(fitted: Any, X: Any, **settings: Any) -> Certifications:
    """`certify` of the classifier at the end of a fitted `Pipeline`, of a search such as `GridSearchCV`, or of both.

    The radius counts columns of `X`, or groups of them. The classifier at the end certifies columns of what the
    pipeline made of `X`. That is the same if no column of `X` becomes several: r perturbed columns of `X` then perturb
    at most r of the classifier's, since each of these is a fitted function of one column. So only steps that are known
    to work column by column are let through: scalers, selections, `OrdinalEncoder`, `SimpleImputer` (no indicator),
    and a `ColumnTransformer` of these on disjoint columns. Other steps belong inside: `AblatedClassifier(pipeline)`
    ablates columns of `X` itself.
    """
    if hasattr(fitted, "best_estimator_"):
        return certify(fitted.best_estimator_, X, **settings)
    if isinstance(fitted, Pipeline):
        for name, step in fitted.steps[:-1]:
            if not _column_by_column(step):
                raise InputError(
                    f"the step {name} ({type(step).__name__}) comes before the ablation and may make several columns "
                    "of one, so a radius would not count yours; move it inside: AblatedClassifier(pipeline)"
                )
        return certify(fitted.steps[-1][1], fitted[:-1].transform(X) if len(fitted.steps) > 1 else X, **settings)
    if not hasattr(fitted, "certify"):
        raise InputError(
            f"{type(fitted).__name__} does not certify; end with AblatedClassifier or PartitionedClassifier"
        )
    found: Certifications = fitted.certify(X, **settings)
    return found


def _column_by_column(step: Any) -> bool:
    """Whether each column that a fitted step gives is a function of one it takes, another for each."""
    if step is None or (isinstance(step, str) and step in ("passthrough", "drop")):
        return True
    if type(step) is SimpleImputer:
        return not step.add_indicator
    if type(step) is FunctionTransformer:
        return step.func is None  # the identity, for which "passthrough" stands
    if type(step) is Pipeline:
        return all(_column_by_column(each) for _, each in step.steps)
    if type(step) is ColumnTransformer:
        each = step._transformer_to_input_indices  # of columns, which may be named, sliced or chosen by a function
        taken = list(chain.from_iterable(each[name] for name, used, _ in step.transformers_ if used != "drop"))
        return len(set(taken)) == len(taken) and all(_column_by_column(used) for _, used, _ in step.transformers_)
    return type(step) in COLUMN_BY_COLUMN
