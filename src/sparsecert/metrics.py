"""Scorers for scikit-learn's model selection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparsecert.errors import check_int

__all__ = ["CertifiedAccuracy", "certified_accuracy_score"]


@dataclass(frozen=True)
class CertifiedAccuracy:
    """A scorer: the share of rows whose answer is right and certified against changes of `radius` units.

    It takes a fitted classifier of `sparsecert.tabular`, or a pipeline or search that ends in one
    (`sparsecert.tabular.certify`), as `GridSearchCV(..., scoring=...)` calls it.
    """

    radius: int

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        from sparsecert.tabular import certify

        return float(certify(estimator, X).certified(y, self.radius).mean())


def certified_accuracy_score(radius: int) -> CertifiedAccuracy:
    """The scorer of certified accuracy at this radius.

    Accuracy alone is highest for the model that sees most columns, which is the least robust one: choose `keep` by

        GridSearchCV(AblatedClassifier(base), {"keep": [2, 3, 5]}, scoring=certified_accuracy_score(radius=1))
    """
    return CertifiedAccuracy(check_int("radius", radius, 0, 1 << 31))
