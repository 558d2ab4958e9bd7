"""The votes of ablated rows, counted on all cores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sparsecert.tabular.null import Null
from sparsecert.tabular.units import shown

Float = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]
Int64 = npt.NDArray[np.int64]

MOST_VALUES = 1 << 21  # of the ablated copies that are shown to the estimator at once: 16 MiB
ROWS = 64  # of a task
NO_CLASS = -1  # the vote of an estimator that rejects what it sees


@dataclass(frozen=True)
class Ablated:
    """A fitted base estimator that sees rows through masks: its classes are the numbers 0, 1, ..., classes - 1."""

    estimator: Any
    null: Null
    units: Int64
    classes: int

    def votes(self, rows: Float, masks: Bool) -> Int64:
        """int64[b, m]: the class of each row Float[b, columns] through each mask Bool[m, units]; NO_CLASS for any other
        answer.
        """
        return np.concatenate([np.empty((0, len(masks)), np.int64), *self._in_batches(rows, masks, self._labels)])

    def probabilities(self, rows: Float, masks: Bool) -> Float:
        """float64[b, m, classes]: the estimator's own, where it has them."""
        found = self._in_batches(rows, masks, self._shares)
        return np.concatenate([np.empty((0, len(masks), self.classes)), *found])

    def see(self, rows: Float, masks: Bool) -> Float:
        """What the estimator sees of rows Float[n, columns], each through its own mask of Bool[n, units]."""
        return self.null(rows, shown(self.units, masks))

    def shares(self, seen: Float) -> Float:
        """float64[n, classes]: the estimator's own probabilities for what it sees."""
        known = np.asarray(self.estimator.predict_proba(seen), dtype=np.float64)
        shares = np.zeros((len(known), self.classes))
        shares[:, np.asarray(self.estimator.classes_, dtype=np.int64)] = known
        return shares

    def _in_batches(self, rows: Float, masks: Bool, answer: Any) -> list[npt.NDArray[Any]]:
        """The answers for some rows through all masks at a time, as many as the memory allows and at least one."""
        at_once = max(1, MOST_VALUES // max(1, len(masks) * rows.shape[1]))
        return [answer(rows[start : start + at_once], masks) for start in range(0, len(rows), at_once)]

    def _seen(self, rows: Float, masks: Bool) -> Float:
        each = np.repeat(rows, len(masks), axis=0)
        return self.see(each, np.tile(masks, (len(rows), 1)))

    def _labels(self, rows: Float, masks: Bool) -> Int64:
        answers = np.asarray(self.estimator.predict(self._seen(rows, masks)))
        labels = np.where(np.isin(answers, np.arange(self.classes)), answers, NO_CLASS)  # a NaN is no whole number
        return labels.astype(np.int64).reshape(len(rows), len(masks))

    def _shares(self, rows: Float, masks: Bool) -> Float:
        return self.shares(self._seen(rows, masks)).reshape(len(rows), len(masks), self.classes)


def tally(votes: npt.NDArray[np.integer], classes: int) -> Int64:
    """int64[b, classes]: how many of the votes int64[b, m] each class has."""
    return np.stack([(votes == label).sum(axis=1) for label in range(classes)], axis=1).astype(np.int64)


def in_parallel(task: Any, rows: Float, n_jobs: int | None) -> list[Any]:
    """task(rows) of ROWS rows at a time, in order, over `n_jobs` cores, as elsewhere in scikit-learn."""
    from sklearn.utils.parallel import Parallel, delayed

    parts = [rows[start : start + ROWS] for start in range(0, len(rows), ROWS)]
    if len(parts) == 1 or n_jobs in (None, 1):
        return [task(part) for part in parts]
    found: list[Any] = Parallel(n_jobs=n_jobs)(delayed(task)(part) for part in parts)
    return found
