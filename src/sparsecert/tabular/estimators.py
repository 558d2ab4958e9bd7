"""Classifiers of rows as models that vote: copies in, scores out."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import cpu_count
from typing import Any

import numpy as np
import torch

from sparsecert.tabular.trees import Trees

FEW = 256  # copies that are not worth a thread


@dataclass(frozen=True, eq=False)
class EstimatorModel:
    """A fitted scikit-learn classifier of 0, 1, ..., classes - 1: its answer scores 1, the others 0.

    An answer that is none of its classes, of an estimator that may reject a row, has no finite scores: it votes for
    nobody.
    """

    estimator: Any
    classes: int

    def __call__(self, copies: torch.Tensor) -> torch.Tensor:
        answers = np.asarray(self.estimator.predict(copies.flatten(1).numpy()))
        scores = (answers.reshape(-1, 1) == np.arange(self.classes)).astype(np.float64)  # a NaN equals none
        scores[~scores.any(axis=1)] = np.nan
        return torch.from_numpy(scores)

    def probabilities(self, copies: torch.Tensor) -> np.ndarray[Any, np.dtype[np.float64]]:
        """float64[rows, classes]: the estimator's own."""
        known = np.asarray(self.estimator.predict_proba(copies.flatten(1).numpy()), dtype=np.float64)
        shares = np.zeros((len(known), self.classes))
        shares[:, np.asarray(self.estimator.classes_, dtype=np.int64)] = known
        return shares


@dataclass(frozen=True, eq=False)
class TreeModel:
    """Boosted trees, over all cores."""

    trees: Trees

    def __call__(self, copies: torch.Tensor) -> torch.Tensor:
        rows = copies.flatten(1).double().numpy()
        parts = np.array_split(rows, min(cpu_count() or 1, max(1, len(rows) // FEW)))
        if len(parts) == 1:
            return torch.from_numpy(self.trees.scores(rows))
        with ThreadPoolExecutor(len(parts)) as threads:
            return torch.from_numpy(np.concatenate(list(threads.map(self.trees.scores, parts))))
