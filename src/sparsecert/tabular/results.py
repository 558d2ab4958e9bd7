"""What `AblatedClassifier.certify` returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sparsecert.results import ABSTAINED

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RowCertificates:
    """For each row: no change of up to `radii` units, to whatever values, alters the answer; or an abstention.

    If `exact`, all masks voted, and this holds always (`alpha` is None, nothing abstains). Otherwise it holds for each
    row with probability at least 1 - alpha over the masks that were drawn. The answer is that of the smoothed
    classifier; whether it is the true class is another question.

    labels: int64[b], the number in `classes` of the answer, -1 where abstained. radii: int64[b], -1 where abstained.
    counts: int64[b, classes], the votes of all masks, or of estimation.
    """

    classes: npt.NDArray[Any]
    labels: Int64
    radii: Int64
    counts: Int64
    exact: bool
    alpha: float | None

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        kind = "exact" if self.exact else f"alpha={self.alpha}"
        return f"RowCertificates({len(self)} rows, {self.abstained.sum()} abstained, {kind})"

    @property
    def abstained(self) -> npt.NDArray[np.bool_]:
        """bool[b]: nothing could be certified, not even the answer at the row as it is."""
        return np.asarray(self.labels == ABSTAINED, dtype=np.bool_)

    @property
    def answers(self) -> npt.NDArray[Any]:
        """object[b]: the class, None where abstained."""
        return answers(self.classes, self.labels)

    def certified(self, truth: Any, radius: int) -> npt.NDArray[np.bool_]:
        """bool[b]: whether the answer is the true class, and certified against changes of so many units."""
        right = self.answers == np.asarray(truth, dtype=object)
        return np.asarray(right & (self.radii >= radius), dtype=np.bool_)


def answers(classes: npt.NDArray[Any], labels: Int64) -> npt.NDArray[Any]:
    """object[b]: the classes of these numbers, None for -1."""
    found = classes.astype(object)[np.maximum(labels, 0)]
    found[labels == ABSTAINED] = None
    return found
