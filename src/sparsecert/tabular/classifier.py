"""A scikit-learn meta-classifier that votes over ablated rows and certifies its answers."""

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

from sparsecert.counts import Float64, Int64
from sparsecert.encodings import Grouped, Indicator, NotANumber
from sparsecert.errors import InputError, check_int
from sparsecert.procedures import Exact, Fixed, Procedure
from sparsecert.results import ABSTAINED, Certifications, Predictions, concatenate, named
from sparsecert.schemes import TRAINING, AllSubsets, FixedMasks, Scheme, Uniform
from sparsecert.smoothed import Smoothed
from sparsecert.tabular.estimators import EstimatorModel
from sparsecert.tabular.explanation import Explanation, explain
from sparsecert.tabular.fitting import check_rows, check_training, fit_on, seeded
from sparsecert.tabular.frames import FrameValues

NULLS = "auto", "nan", "indicator"
BOUNDS = {"plurality": "two-sided", "pairwise": "pairwise"}  # by which each rule is certified for random masks
ROWS = 64  # per batch


class AblatedClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Any classifier with certified robustness: no perturbation of up to r features changes its answer.

    The base estimator sees rows of which all but `keep` units are NULL; the class with the most votes over masks is the
    answer. (With another `rule`, below, it is elected by rankings.) A unit is a column, or columns grouped by `groups`,
    such as the one-hot columns of a category.

    Guarantee. A copy depends only on the mask, the units it retains and the protected columns, so a mask that retains
    no perturbed unit votes as before. Hence, as long as the protected columns are unchanged and the base estimator
    gives a row the same answer in any batch:

    * Exact, if C(units, keep) is at most `most_masks`. All masks vote; the answer is the class with the most votes, on
      a tie the first in `classes_`. Class j replaces A only if n_A - n_j falls below 0, or to 0 if j precedes A. A mask
      that retains a perturbed unit lowers it by at most 2 if it voted for A, by 0 if for j, else by 1.
      `EnumeratedUnits` sums this over the masks that each set of perturbed units meets; if no set of r units and no j
      suffice, r is certified. This is deterministic, and tight given the votes alone: the estimator might vote just so
      on rows it has not seen.
    * Two-sided, otherwise. `n0` masks select A; `n` other masks bound its probability from below and its strongest
      rival's from above, jointly with probability 1 - alpha (`bounds.two_sided`), and Corollary 2 of Levine & Feizi
      (2020) turns the lead into r, or abstains. An answer outside the classes (an estimator may reject a row) counts
      against A. All rows share the masks: each certificate holds on its own with probability at least 1 - alpha, but
      those of different rows are not independent. The masks are a function of `random_state`, or of a `seed` given to
      `certify`, which an attacker must not have known.

    With `rule` "pairwise" a copy ranks all classes, by `predict_proba` if the estimator has that, and the answer is the
    class that beats every other one: exact by `certificates.pairwise`, otherwise by `certificates.pairwise_sampled`
    with all of alpha in one bound on the smallest count (`bounds.pairwise`).

    NULL is NaN if the estimator accepts it (HistGradientBoosting, LightGBM, trees), else a fill value with an indicator
    column; set `null` ("auto", "nan", "indicator") to choose. A value that is missing, or that an attacker deletes,
    looks like NULL too: it is a perturbed unit like any other, so the guarantee covers it.

    Columns of a pandas frame may be text, categories or dates, if the estimator takes those: a pipeline that encodes
    them, HistGradientBoosting or LightGBM with their categories. It then sees frames in which NULL is a missing value,
    in fitting too. The unit is the frame's column whatever the pipeline makes of it: each entry of such a frame depends
    on the same entry of the row and on the mask (`frames`), and the fitted pipeline is a function of the frame. So the
    guarantee holds for encoders that mix columns, or that were fitted on ablated rows, as long as what they make of a
    row does not depend on the other rows they are given with it.

    Parameters
    ----------
    estimator : the base classifier; it is cloned.
    keep : units that a mask retains; a float below 1 is a share of them, rounded, at least 1.
    groups : one entry per column; columns with equal entries are one unit, PROTECTED (-1) is never ablated.
    protected : columns that are never ablated: numbers, names, or a boolean mask.
    copies : ablated copies of each row to fit on, each with its own mask.
    null : how NULL is encoded.
    most_masks : all masks vote if there are at most this many.
    n0, n, alpha : for certificates of random masks; `predict` uses n votes.
    rule : how votes elect a class: "plurality", "pairwise", or, where all masks vote, "run-off".
    n_jobs : as elsewhere in scikit-learn.
    random_state : determines the masks, and the estimator's own random_state if that is None.
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
        rule: str = "plurality",
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
        self.rule = rule
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> AblatedClassifier:
        """Fits the base estimator on `copies` ablated copies of each row.

        A row's masks depend only on its values and `random_state`, not on its position: a duplicate row counts as one
        of twice the weight, and the order of the rows does not matter.
        """
        rows, targets, weights, values = check_training(self, X, y, sample_weight)
        self.scheme_ = _scheme(int(self.units_.max()) + 1, self.keep, self.most_masks)
        self._procedure()
        generator = check_random_state(self.random_state)
        self.seed_ = int(generator.randint(np.iinfo(np.int32).max))
        self.estimator_ = seeded(clone(self.estimator), generator)
        text = values is not None and bool(values.coded.any())
        self.encoding_ = _encoding(self.null, self.units_, self.estimator_, rows, weights, text)
        copies = check_int("copies", self.copies, 1, 1 << 16)
        hashes = _hashes(rows if values is None else values.hashable(rows))
        masks = self.scheme_.masks(self.seed_, hashes, range(TRAINING, TRAINING + copies))
        each = torch.from_numpy(np.repeat(rows, copies, axis=0))
        seen = self.encoding_(each, masks.flatten(0, 1)).flatten(1).numpy()
        weights = None if weights is None else np.repeat(weights, copies)
        fit_on(self.estimator_, seen, np.repeat(targets, copies), weights, self._shown(values))
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The class that the votes elect for each row; `predict_or_abstain` abstains where that is uncertain.

        Of random masks by pairs, a tenth of the n votes choose it.
        """
        parts: list[Predictions] = self._answer("predict", X, None, None)
        labels: npt.NDArray[Any] = self.classes_[np.concatenate([_elected(part) for part in parts])]
        return labels

    def predict_proba(self, X: Any) -> Float64:
        """Float[b, classes]: each class's share of the votes; all 0 if there are none."""
        counts = self.votes(X)
        shares: Float64 = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        return shares

    def predict_or_abstain(self, X: Any, alpha: float | None = None) -> npt.NDArray[Any]:
        """object[b]: the answer of the smoothed classifier, None where it abstains.

        If all masks vote, their winner is the answer. Otherwise a class other than the smoothed classifier's is
        returned with probability at most alpha (`bounds.predicted`).
        """
        found = [answer for part in self._answer("predict", X, alpha, None) for answer in part.answers]
        return named(self.classes_, np.array([ABSTAINED if one is None else one for one in found], dtype=np.int64))

    def votes(self, X: Any) -> Int64:
        """int64[b, classes]: the votes of all masks, or of n random ones."""
        return np.concatenate([part.counts for part in self._answer("predict", X, None, None)])

    def certify(self, X: Any, *, alpha: float | None = None, seed: int | None = None) -> Certifications:
        """For each row an answer and how many units may be perturbed without changing it; the class has the proof."""
        parts = self._answer("certify", X, alpha, seed)
        return replace(concatenate(parts), classes=self.classes_)

    def explain(self, row: Any) -> Explanation:
        """On which units the votes for the answer to one row hang: how they go with and without each of them."""
        return explain(self, row)

    def _answer(self, verb: str, X: Any, alpha: float | None, seed: int | None) -> list[Any]:
        """Answers of the smoothed classifier, in batches of ROWS, on `n_jobs` cores."""
        from sklearn.utils.parallel import Parallel, delayed

        rows, values = check_rows(self, X)
        level = None if self.exact_ else float(self._alpha(alpha))
        task = partial(
            _answers, self._smoothed(values), verb, self._procedure(), level, self.seed_ if seed is None else seed
        )
        parts = [rows[start : start + ROWS] for start in range(0, len(rows), ROWS)]
        if len(parts) == 1 or self.n_jobs in (None, 1):
            return [task(part) for part in parts]
        found: list[Any] = Parallel(n_jobs=self.n_jobs)(delayed(task)(part) for part in parts)
        return found

    def _procedure(self) -> Procedure:
        """How answers are elected and certified; refuses a rule that is none, or that random masks do not have."""
        exact = Exact(self.rule)
        if self.exact_:
            return exact
        n0, n = check_int("n0", self.n0, 1, 1 << 31), check_int("n", self.n, 1, 1 << 31)
        if self.rule not in BOUNDS:
            raise InputError(f"rule {self.rule} is for all masks, and here they are drawn; use {' or '.join(BOUNDS)}")
        return Fixed(n0, n, BOUNDS[self.rule])

    def _smoothed(self, values: FrameValues | None = None) -> Smoothed:
        ranks = self.rule != "plurality"
        model = EstimatorModel(self.estimator_, len(self.classes_), ranks, self._shown(values))
        return Smoothed(model, self.scheme_, self.encoding_, classes=model.classes)

    def _shown(self, values: FrameValues | None) -> FrameValues | None:
        """What the base estimator's rows stand for; None where it sees arrays: with indicators, of no frame."""
        return values if isinstance(self.encoding_, NotANumber) else None

    @property
    def exact_(self) -> bool:
        """Whether all masks vote, so that certificates are deterministic."""
        return isinstance(self.scheme_, FixedMasks)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _masks(self, purpose: int, count: int, seed: int) -> torch.Tensor:
        """Bool[masks, units]: all fixed masks, or `count` random ones for the purpose."""
        if isinstance(self.scheme_, FixedMasks):
            return self.scheme_.all_masks()
        return self.scheme_.masks(seed, [0], range(purpose, purpose + count))[0]

    def _alpha(self, alpha: float | None) -> Fraction:
        level: Any = self.alpha if alpha is None else alpha
        if not isinstance(level, Real) or not 0 < float(level) < 1:
            raise InputError(f"alpha must be between 0 and 1, both excluded, got {level!r}")
        return Fraction(float(level))


def _scheme(units: int, keep: Any, most_masks: Any) -> Scheme:
    """All masks if there are at most `most_masks`, else random masks."""
    if isinstance(keep, Real) and not isinstance(keep, Integral):
        if not 0 < float(keep) < 1:
            raise InputError(f"keep must be a number of units, or a share between 0 and 1, got {keep!r}")
        keep = max(1, round(float(keep) * units))
    uniform = Uniform(units, keep)
    few = comb(units, uniform.keep) <= check_int("most_masks", most_masks, 0, 100_000)
    return AllSubsets(units, uniform.keep) if few else uniform


def _hashes(rows: Float64) -> Int64:
    """int64[b]: a 32-bit hash of each row's values."""
    return np.array([zlib.crc32(row.tobytes()) for row in np.ascontiguousarray(rows + 0.0)], dtype=np.int64)


def _answers(
    smoothed: Smoothed, verb: str, procedure: Procedure, alpha: float | None, seed: int, rows: Float64
) -> Certifications | Predictions:
    """Every row uses the masks of example 0."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*gave scores that are not finite")  # an estimator may reject a row
        warnings.filterwarnings("ignore", ".*from their ablated copies")  # `fit` trained it on them
        result: Certifications | Predictions = getattr(smoothed, verb)(
            torch.tensor(rows), procedure, alpha=alpha, seed=seed, examples=[0] * len(rows)
        )
        return result


def _elected(found: Predictions) -> Int64:
    """int64[b]: the answers without abstentions."""
    if found.alpha is None:
        return found.labels
    return found.counts.argmax(axis=1) if found.selection is None else found.selection.labels


def _encoding(null: str, units: Int64, estimator: Any, rows: Float64, weights: Float64 | None, text: bool) -> Grouped:
    """NULL as NaN on request ("nan"), in frames with text or if the estimator accepts it ("auto"), else an indicator.

    The indicator's fill value is the training mean of the known values.
    """
    if null not in NULLS:
        raise InputError(f"null must be one of {', '.join(NULLS)}, got {null!r}")
    if null == "indicator" and text:
        raise InputError("null indicator is for numbers, and the frame has other columns; use nan, and impute within")
    if null == "nan" or (null == "auto" and (text or get_tags(estimator).input_tags.allow_nan)):
        return NotANumber(units)
    known = np.isfinite(rows) * (1.0 if weights is None else weights[:, None])
    total = known.sum(axis=0)
    sums = (np.where(known > 0, rows, 0.0) * known).sum(axis=0)
    return Grouped(Indicator(np.divide(sums, total, out=np.zeros_like(sums), where=total > 0)), units)
