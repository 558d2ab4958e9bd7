"""Regression with certificates: the median of parts that learn from columns of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin
from sklearn.utils import get_tags

from sparsecert.counts import Float64, Int64
from sparsecert.errors import InputError, check_int
from sparsecert.schemes import Partition
from sparsecert.tabular.estimators import columns_of
from sparsecert.tabular.fitting import check_rows, check_table
from sparsecert.tabular.partitioned import fit_parts


@dataclass(frozen=True, eq=False)
class CertifiedValues:
    """For each row the median of the parts' values, and how far perturbed units can move it.

    ordered: Float[b, parts], the values of the parts from least to largest.

    Guarantee. r perturbed units meet at most r parts, whose values may become anything; the others stay. The median is
    the value at place h = (parts - 1) // 2. At least parts - h + r values are not below that at place h - r, and at
    most r of them change, so parts - h remain: the new median is not below it. Likewise it is not above the value at
    place h + r. Both are attained if r parts can give any value. Beyond the ends the bound is infinite.
    """

    ordered: Float64

    @property
    def values(self) -> Float64:
        """Float[b]: the answers."""
        return self.ordered[:, self._middle]

    def bounds(self, radius: int) -> tuple[Float64, Float64]:
        """Float[b] each: the answer stays between these whichever `radius` units are perturbed."""
        radius = check_int("radius", radius, 0, 1 << 31)
        count, parts = self.ordered.shape
        low, high = self._middle - radius, self._middle + radius
        infinite = np.full(count, np.inf)
        return (
            self.ordered[:, low] if low >= 0 else -infinite,
            self.ordered[:, high] if high < parts else infinite,
        )

    def radii(self, least: Any, largest: Any) -> Int64:
        """int64[b]: perturbing this many units leaves the answer from `least` to `largest`; -1 where it is not there.

        Both are numbers or one for each row: such as the truth, more or less a tenth of it.
        """
        found = np.full(len(self.ordered), -1, dtype=np.int64)
        for radius in range(self._middle + 1):
            low, high = self.bounds(radius)
            found[(low >= least) & (high <= largest)] = radius
        return found

    @property
    def _middle(self) -> int:
        return int(self.ordered.shape[1] - 1) // 2


class PartitionedRegressor(MetaEstimatorMixin, RegressorMixin, BaseEstimator):
    """Any regressor with certificates against perturbed features in training, at test time, or both.

    As `PartitionedClassifier`, whose proof and assumptions hold here too: each of `parts` disjoint sets of units has an
    estimator of its own, so that a perturbed unit changes one value. The answer is the median of all (of an even number
    the lower of the two in the middle), which `CertifiedValues` bounds. It follows Hammoudeh & Lowd, "Reducing
    Certified Regression to Certified Classification for General Poisoning Attacks" (SaTML 2023).

    Parameters are those of `PartitionedClassifier`, without `partitions` and `rule`.
    """

    def __init__(
        self,
        estimator: Any,
        *,
        parts: int = 9,
        scheme_seed: int = 0,
        groups: Any = None,
        protected: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.parts = parts
        self.scheme_seed = scheme_seed
        self.groups = groups
        self.protected = protected
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> PartitionedRegressor:
        """Fits an estimator for each part, on the columns of the part and the protected ones."""
        rows, targets, weights, values = check_table(self, X, y, sample_weight, self._takes_missing, y_numeric=True)
        self.scheme_ = Partition(int(self.units_.max()) + 1, self.parts, 1, self.scheme_seed)
        self.columns_ = columns_of(self.scheme_.table, self.units_)
        self.estimators_ = fit_parts(self, rows, targets, weights, values)
        return self

    def predict(self, X: Any) -> Float64:
        """Float[b]: the median of the parts' values."""
        return self.certify(X).values

    def certify(self, X: Any) -> CertifiedValues:
        """For each row the answer, and how far perturbed units can move it."""
        rows, values = check_rows(self, X, self._takes_missing)
        each = [
            np.asarray(one.predict(rows[:, seen] if values is None else values.part(seen)(rows[:, seen])))
            for one, seen in zip(self.estimators_, self.columns_, strict=True)
        ]
        found = np.stack(each, axis=1).astype(np.float64)
        if np.isnan(found).any():
            raise InputError("a part gives NaN, which has no place among other values; use another estimator")
        return CertifiedValues(np.sort(found, axis=1))

    @property
    def _takes_missing(self) -> bool:
        return bool(get_tags(self.estimator).input_tags.allow_nan)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._takes_missing
        return tags
