"""A classifier that answers with a class of its own, or with none."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin


class Rejecting(ClassifierMixin, BaseEstimator):  # type: ignore[misc,unused-ignore]
    """0 where the first column is shown; else 1 where a 9 is; else `none`, which is no class. It takes NaN for NULL."""

    def __init__(self, none: float = -1) -> None:
        self.none = none

    def fit(self, rows: Any, labels: Any) -> Rejecting:
        """Learns nothing but the classes."""
        self.classes_ = np.unique(labels)
        return self

    def predict(self, rows: Any) -> Any:
        """A number for each."""
        return np.where(~np.isnan(rows[:, 0]), 0, np.where((rows == 9).any(axis=1), 1, self.none))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
