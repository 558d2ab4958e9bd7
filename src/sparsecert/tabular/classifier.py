"""A scikit-learn classifier that votes over ablated rows and certifies its answers."""

from __future__ import annotations

import warnings
import zlib
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import comb
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from sparsecert.counts import Int64
from sparsecert.encodings import Grouped, Indicator, NotANumber
from sparsecert.errors import InputError, whole
from sparsecert.procedures import Exact, Fixed, Procedure
from sparsecert.results import ABSTAINED, Certifications, Predictions, concatenate, named
from sparsecert.schemes import TRAINING, AllSubsets, Uniform
from sparsecert.smoothed import Smoothed
from sparsecert.tabular.estimators import EstimatorModel
from sparsecert.tabular.units import units_of

Float = npt.NDArray[np.float64]
NULLS = "auto", "nan", "indicator"
ROWS = 64  # answered at a time


class AblatedClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """No change of up to r features changes the answer: any classifier, made into one that can say so and prove it.

    The base estimator sees rows of which all but `keep` units are NULL, and the class that most masks lead to is the
    answer. A unit is a column, or the columns that `groups` puts together, such as the one-hot columns of a category.

    Guarantee. A copy through a mask depends on what the mask retains alone (and on protected columns), so a mask that
    retains no altered unit votes as before. Hence, as long as the protected columns are as they were, and the base
    estimator gives a row the same answer whatever batch it comes in:

    * Exact, where C(units, keep) is at most `most_masks`. All masks vote; the answer is the class with most votes, of
      equal ones the first in `classes_`. Class j takes the place of A only if n_A - n_j falls below 0, or to 0 where j
      is before A. A mask that retains an altered unit brings it down by 2 at most if it voted for A, by nothing if for
      j, else by 1. `EnumeratedUnits` adds this up over the masks that each set of altered units meets; if for no set of
      r units and no j it is enough, r is certified. This holds always. For the votes alone it is also the best: the
      estimator might vote just so on rows it has not been shown.
    * Two-sided, otherwise. `n0` masks choose A; `n` other masks bound its probability from below and its strongest
      rival's from above, together with probability 1 - alpha (`bounds.two_sided`), and Corollary 2 of Levine & Feizi
      (2020) turns the lead into r, or abstains. An answer that is none of the classes, of an estimator that may reject
      a row, counts against A. The masks are the same for every row: each certificate holds by itself with probability
      at least 1 - alpha over them, and those of different rows are not independent. They are a function of
      `random_state`, or of a `seed` given to `certify`, which an attacker must not have known.

    NULL is NaN where the estimator takes it (HistGradientBoosting, LightGBM, trees), else a fill value beside an
    indicator; `null` ("auto", "nan", "indicator") can say which. A value that is missing in the table, or that an
    attacker deletes, looks like NULL too: it is an altered unit like any other, so the guarantee includes it. Columns
    must be numbers: encode categories before (`OrdinalEncoder` with NaN for the unknown), or in the estimator, which
    may be a pipeline.

    Parameters
    ----------
    estimator : the base classifier; it is cloned.
    keep : units that a mask retains; a float below 1 is a share of them, rounded, at least 1.
    groups : an entry for each column; columns with equal entries are one unit, PROTECTED (-1) is never ablated.
    protected : columns that are never ablated: numbers, names, or a boolean for each.
    copies : ablated copies of each row to fit on, each through a mask of its own.
    null : how NULL is shown.
    most_masks : up to so many masks, all of them vote.
    n0, n, alpha : of the two-sided certificate; `predict` takes n votes.
    n_jobs : over how many cores votes are spread, as elsewhere in scikit-learn.
    random_state : decides the masks, and the estimator where its own is None.
    """

    def __init__(
        self,
        estimator: Any,
        *,
        keep: int | float = 0.3,
        groups: Any = None,
        protected: Any = None,
        copies: int = 8,
        null: str = "auto",
        most_masks: int = 5_000,
        n0: int = 100,
        n: int = 1_000,
        alpha: float = 0.05,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.keep = keep
        self.groups = groups
        self.protected = protected
        self.copies = copies
        self.null = null
        self.most_masks = most_masks
        self.n0 = n0
        self.n = n
        self.alpha = alpha
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> AblatedClassifier:
        """Fits the base estimator on `copies` ablated copies of each row.

        The masks of a row depend on its values and `random_state` alone, not on where in the table it is: a row that is
        there twice counts as one of twice the weight, and the order of the rows does not matter.
        """
        rows, y = validate_data(self, X, y, dtype=np.float64, ensure_all_finite="allow-nan")
        check_classification_targets(y)
        self.classes_, targets = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError(f"y must have at least two classes, got one class: {self.classes_[0]}")
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, rows, dtype=np.float64)
        names = getattr(self, "feature_names_in_", None)
        self.units_ = units_of(rows.shape[1], self.groups, self.protected, None if names is None else list(names))
        self.scheme_ = _scheme(int(self.units_.max()) + 1, self.keep, self.most_masks)
        generator = check_random_state(self.random_state)
        self.seed_ = int(generator.randint(np.iinfo(np.int32).max))
        self.estimator_ = _seeded(clone(self.estimator), generator)
        self.encoding_ = _encoding(self.null, self.units_, self.estimator_, rows, weights)
        copies = whole("copies", self.copies, 1, 1 << 16)
        masks = self.scheme_.masks(self.seed_, _numbers(rows), range(TRAINING, TRAINING + copies))
        each = torch.from_numpy(np.repeat(rows, copies, axis=0))
        seen = self.encoding_(each, masks.flatten(0, 1)).flatten(1).numpy()
        seen[:, np.isnan(seen).all(axis=0)] = 0.0  # nothing to learn from, and not every estimator takes it
        given = {} if weights is None else {"sample_weight": np.repeat(weights, copies)}
        self.estimator_.fit(seen, np.repeat(targets, copies), **given)
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The class with most votes, for every row; `predict_or_abstain` says where that is not sure."""
        winners = self.votes(X).argmax(axis=1)
        labels: npt.NDArray[Any] = self.classes_[winners]
        return labels

    def predict_proba(self, X: Any) -> Float:
        """Float[b, classes]: the share of the votes that each class has; all 0 where none has any."""
        counts = self.votes(X)
        shares: Float = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        return shares

    def predict_or_abstain(self, X: Any, alpha: float | None = None) -> npt.NDArray[Any]:
        """object[b]: the answer of the smoothed classifier, None where the votes leave it open.

        Where all masks vote, their winner is the answer. Otherwise another class than the answer is returned with
        probability at most alpha (`bounds.predicted`).
        """
        found = [answer for part in self._answer("predict", X, alpha, None) for answer in part.answers]
        return named(self.classes_, np.array([ABSTAINED if one is None else one for one in found], dtype=np.int64))

    def votes(self, X: Any) -> Int64:
        """int64[b, classes]: the votes of all masks, or of the n that are drawn for prediction."""
        return np.concatenate([part.counts for part in self._answer("predict", X, None, None)])

    def certify(self, X: Any, *, alpha: float | None = None, seed: int | None = None) -> Certifications:
        """For each row an answer and how many units may be perturbed without changing it; the class has the proof."""
        parts = self._answer("certify", X, alpha, seed)
        return replace(concatenate(parts), classes=self.classes_)

    def _answer(self, verb: str, X: Any, alpha: float | None, seed: int | None) -> list[Any]:
        """What the smoothed classifier says of ROWS rows at a time, over `n_jobs` cores."""
        from sklearn.utils.parallel import Parallel, delayed

        check_is_fitted(self)
        rows: Float = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
        n0, n = whole("n0", self.n0, 1, 1 << 31), whole("n", self.n, 1, 1 << 31)
        procedure: Procedure = Exact("plurality") if self.exact_ else Fixed(n0, n)
        level = None if self.exact_ else float(self._alpha(alpha))
        task = partial(_answers, self._smoothed(), verb, procedure, level, self.seed_ if seed is None else seed)
        parts = [rows[start : start + ROWS] for start in range(0, len(rows), ROWS)]
        if len(parts) == 1 or self.n_jobs in (None, 1):
            return [task(part) for part in parts]
        found: list[Any] = Parallel(n_jobs=self.n_jobs)(delayed(task)(part) for part in parts)
        return found

    def _smoothed(self) -> Smoothed:
        classes = len(self.classes_)
        return Smoothed(EstimatorModel(self.estimator_, classes), self.scheme_, self.encoding_, classes=classes)

    @property
    def exact_(self) -> bool:
        """Whether all masks vote, so that certificates hold always."""
        return isinstance(self.scheme_, AllSubsets)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _masks(self, purpose: int, count: int, seed: int) -> torch.Tensor:
        """Bool[masks, units]: all of them, or so many for the purpose."""
        if isinstance(self.scheme_, AllSubsets):
            return self.scheme_.all_masks()
        return self.scheme_.masks(seed, [0], range(purpose, purpose + count))[0]

    def _alpha(self, alpha: float | None) -> Fraction:
        level: Any = self.alpha if alpha is None else alpha
        if not isinstance(level, Real) or not 0 < float(level) < 1:
            raise InputError(f"alpha must be between 0 and 1, both excluded, got {level!r}")
        return Fraction(float(level))


def _scheme(units: int, keep: Any, most_masks: Any) -> AllSubsets | Uniform:
    """All masks where they are at most `most_masks`, else masks drawn at random."""
    if isinstance(keep, Real) and not isinstance(keep, Integral):
        if not 0 < float(keep) < 1:
            raise InputError(f"keep must be a number of units, or a share between 0 and 1, got {keep!r}")
        keep = max(1, round(float(keep) * units))
    uniform = Uniform(units, keep)
    few = comb(units, uniform.keep) <= whole("most_masks", most_masks, 0, 100_000)
    return AllSubsets(units, uniform.keep) if few else uniform


def _seeded(estimator: Any, generator: np.random.RandomState) -> Any:
    """The estimator with every random_state that is None set, also of a pipeline's steps."""
    parameters = estimator.get_params(deep=True)
    names = sorted(name for name in parameters if name.split("__")[-1] == "random_state" and parameters[name] is None)
    return estimator.set_params(**{name: int(generator.randint(np.iinfo(np.int32).max)) for name in names})


def _numbers(rows: Float) -> Int64:
    """int64[b]: a number below 2**32 for each row that depends on its values alone."""
    return np.array([zlib.crc32(row.tobytes()) for row in np.ascontiguousarray(rows + 0.0)], dtype=np.int64)


def _answers(
    smoothed: Smoothed, verb: str, procedure: Procedure, alpha: float | None, seed: int, rows: Float
) -> Certifications | Predictions:
    """The masks are those of example 0 for every row."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*gave scores that are not finite")  # the estimator may reject a row
        result: Certifications | Predictions = getattr(smoothed, verb)(
            torch.from_numpy(rows), procedure, alpha=alpha, seed=seed, examples=[0] * len(rows)
        )
        return result


def _encoding(null: str, units: Int64, estimator: Any, rows: Float, weights: Float | None) -> Grouped:
    """NULL is NaN where the estimator says that it takes it ("auto"), or where that is asked; else an indicator.

    The indicator's fill value is the mean of what is known in training.
    """
    if null not in NULLS:
        raise InputError(f"null must be one of {', '.join(NULLS)}, got {null!r}")
    if null == "nan" or (null == "auto" and get_tags(estimator).input_tags.allow_nan):
        return NotANumber(units)
    known = np.isfinite(rows) * (1.0 if weights is None else weights[:, None])
    total = known.sum(axis=0)
    sums = (np.where(known > 0, rows, 0.0) * known).sum(axis=0)
    return Grouped(Indicator(np.divide(sums, total, out=np.zeros_like(sums), where=total > 0)), units)
