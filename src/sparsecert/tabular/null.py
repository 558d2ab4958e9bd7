"""How NULL is shown to an estimator: as NaN, or as a fill value beside an indicator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sparsecert.errors import InputError

Float = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]
KINDS = "auto", "nan", "indicator"


class Null(Protocol):
    """Rows and what of them is shown -> what the estimator sees.

    Whatever is promised rests on this: the result for a row depends on its shown entries, on which ones are shown, and
    on numbers fixed when the estimator was fitted; so it is the same for two rows that differ elsewhere alone.
    """

    def __call__(self, rows: Float, shown: Bool) -> Float:
        """Float[n, ...] from rows Float[n, columns] and shown Bool[n, columns]."""


@dataclass(frozen=True)
class NanNull:
    """NULL is NaN, for estimators that take it as it is; a missing value of the table looks the same."""

    def __call__(self, rows: Float, shown: Bool) -> Float:
        """Float[n, columns]."""
        return np.where(shown, rows, np.nan)


@dataclass(frozen=True, eq=False)
class IndicatorNull:
    """NULL is a fill value, and a second column for each says 1: for estimators that take no NaN.

    A missing value of the table looks the same as NULL. fill: Float[columns], the mean of what is known in training.
    """

    fill: Float

    def __call__(self, rows: Float, shown: Bool) -> Float:
        """Float[n, 2 * columns]: values, then indicators of NULL."""
        absent = ~shown | np.isnan(rows)
        return np.concatenate((np.where(absent, self.fill, rows), absent), axis=1)


def null_for(kind: str, estimator: Any, rows: Float, weights: Float | None) -> Null:
    """NaN where the estimator says that it takes it ("auto"), or where that is asked for; else the indicator."""
    if kind not in KINDS:
        raise InputError(f"null must be one of {', '.join(KINDS)}, got {kind!r}")
    if kind == "nan" or (kind == "auto" and _takes_nan(estimator)):
        return NanNull()
    known = np.isfinite(rows) * (1.0 if weights is None else weights[:, None])
    total = known.sum(axis=0)
    sums = (np.where(known > 0, rows, 0.0) * known).sum(axis=0)
    return IndicatorNull(np.divide(sums, total, out=np.zeros_like(sums), where=total > 0))


def _takes_nan(estimator: Any) -> bool:
    from sklearn.utils import get_tags

    return bool(get_tags(estimator).input_tags.allow_nan)
