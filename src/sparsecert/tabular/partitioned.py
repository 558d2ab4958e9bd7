"""A scikit-learn meta-classifier whose parts learn from columns of their own: certificates cover training values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import check_random_state, get_tags

from sparsecert.counts import Float64, Int64
from sparsecert.encodings import NotANumber
from sparsecert.procedures import Exact
from sparsecert.results import Certifications
from sparsecert.schemes import Partition
from sparsecert.smoothed import Smoothed
from sparsecert.tabular.estimators import EstimatorModel, PerPart, columns_of
from sparsecert.tabular.fitting import check_rows, check_training, fit_on, seeded
from sparsecert.tabular.frames import FrameValues


def fit_parts(
    model: Any, rows: Float64, targets: Int64 | Float64, weights: Float64 | None, values: FrameValues | None
) -> list[Any]:
    """A fitted clone of the model's estimator for each row of its `columns_`, with a seed that no value decides."""
    from sklearn.utils.parallel import Parallel, delayed

    generator = check_random_state(model.random_state)
    fresh = [seeded(clone(model.estimator), generator) for _ in model.columns_]
    fitted: list[Any] = Parallel(n_jobs=model.n_jobs)(
        delayed(fit_on)(one, rows[:, seen], targets, weights, values and values.part(seen))
        for one, seen in zip(fresh, model.columns_, strict=True)
    )
    return fitted


class PartitionedClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Any classifier with certificates against perturbed features in training, at test time, or both.

    The units are dealt into `parts` disjoint parts. Each part has an estimator of its own, fitted on its columns alone;
    all of them vote. A unit is a column, or columns grouped by `groups`.

    Guarantee. Let the answer for a row be certified up to radius r. Perturb any r units, in all training rows and in
    the row itself, to any values: fitting again and asking again gives the same answer. This is deterministic. Proof:
    the parts, and the estimators' seeds, depend on the parameters and the number of columns alone. So an estimator is a
    function of these, the labels, the weights and its own columns, and its vote one of the row's values there too. If
    none of its units is perturbed, it votes as before. All other parts may vote as they like; that their votes do not
    suffice is what the certificate of `rule` counts (`certificates.pairwise`, `run_off`, `plurality`). It follows
    Hammoudeh & Lowd, "Provable Robustness Against a Union of L_0 Adversarial Attacks" (AAAI 2024).

    It assumes that labels, weights, protected columns and the set of rows are clean; that `fit` depends on its
    arguments, its parameters and its own random_state alone, not on a global generator; and that a row gets the same
    answer in any batch. A value that cannot be used (infinity, or one that the estimator refuses) ends in an error, not
    in another answer.

    Parameters
    ----------
    estimator : the base classifier; it is cloned. It ranks the classes by `predict_proba`, if it has that.
    parts : the number of disjoint parts; at most as many as there are units.
    partitions : how many such partitions vote, each with estimators of its own.
    scheme_seed : decides which unit goes where.
    groups : one entry per column; columns with equal entries are one unit, PROTECTED (-1) is seen by all parts.
    protected : columns that all parts see: numbers, names, or a boolean mask. Nothing is guaranteed if these change.
    rule : how the votes elect a class: "pairwise", "run-off" or "plurality".
    n_jobs : parts fitted at a time, as elsewhere in scikit-learn.
    random_state : determines each estimator's random_state where that is None.
    """

    def __init__(
        self,
        estimator: Any,
        *,
        parts: int = 8,
        partitions: int = 1,
        scheme_seed: int = 0,
        groups: Any = None,
        protected: Any = None,
        rule: str = "pairwise",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.parts = parts
        self.partitions = partitions
        self.scheme_seed = scheme_seed
        self.groups = groups
        self.protected = protected
        self.rule = rule
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> PartitionedClassifier:
        """Fits an estimator for each part, on the columns of the part and the protected ones."""
        Exact(self.rule)  # refuses a rule that is none
        rows, targets, weights, values = check_training(self, X, y, sample_weight, self._takes_missing)
        self.scheme_ = Partition(int(self.units_.max()) + 1, self.parts, self.partitions, self.scheme_seed)
        self.columns_ = columns_of(self.scheme_.table, self.units_)
        self.estimators_ = fit_parts(self, rows, targets, weights, values)
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The class that the parts elect for each row."""
        winners = np.array(self._answer("predict", X).answers, dtype=np.int64)
        labels: npt.NDArray[Any] = self.classes_[winners]
        return labels

    def votes(self, X: Any) -> Int64:
        """int64[b, classes]: how many parts rank each class first."""
        counts: Int64 = self._answer("predict", X).counts
        return counts

    def certify(self, X: Any) -> Certifications:
        """For each row an answer, and how many units may be perturbed, in training too, without changing it."""
        found: Certifications = self._answer("certify", X)
        return replace(found, classes=self.classes_)

    def _answer(self, verb: str, X: Any) -> Any:
        rows, values = check_rows(self, X, self._takes_missing)
        return getattr(self._smoothed(values), verb)(torch.tensor(rows), Exact(self.rule))

    def _smoothed(self, values: FrameValues | None = None) -> Smoothed:
        classes = len(self.classes_)
        models = [
            EstimatorModel(one, classes, True, values and values.part(seen))
            for one, seen in zip(self.estimators_, self.columns_, strict=True)
        ]
        model = PerPart(models, self.columns_, classes)
        return Smoothed(model, self.scheme_, NotANumber(self.units_, marked=True), classes=classes)

    @property
    def _takes_missing(self) -> bool:
        return bool(get_tags(self.estimator).input_tags.allow_nan)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._takes_missing
        return tags
