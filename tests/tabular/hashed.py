"""Estimators whose answers nothing but the row's bytes decides: whatever is certified of them holds for any."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin


class Hashed(ClassifierMixin, BaseEstimator):
    """Answers by a checksum of the row it is shown, `leaning` to class 0 in that share of the cases."""

    def __init__(self, leaning: float = 0.5, salt: int = 0) -> None:
        self.leaning = leaning
        self.salt = salt

    def fit(self, X: Any, y: Any) -> Hashed:
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        return np.array([self._one(row) for row in np.ascontiguousarray(X)])

    def predict_proba(self, X: Any) -> Any:
        return np.eye(len(self.classes_))[self.predict(X)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _one(self, row: Any) -> int:
        number = zlib.crc32(row.tobytes(), self.salt)
        if (number >> 16) / (1 << 16) < self.leaning:
            return 0
        return number % len(self.classes_)
