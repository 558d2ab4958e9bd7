"""Classifiers of rows as models: copies in, scores out."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import cpu_count
from typing import Any

import numpy as np
import torch

from sparsecert.counts import Float64
from sparsecert.tabular.trees import Trees

FEW = 256  # fewer copies are not worth a thread


@dataclass(frozen=True, eq=False)
class EstimatorModel:
    """A fitted scikit-learn classifier of 0, 1, ..., classes - 1: its answer scores 1, other classes 0.

    An answer outside its classes (an estimator may reject a row) scores NaN, so the copy votes for no class.
    """

    estimator: Any
    classes: int

    def __call__(self, copies: torch.Tensor) -> torch.Tensor:
        answers = np.asarray(self.estimator.predict(copies.flatten(1).numpy()))
        scores = (answers.reshape(-1, 1) == np.arange(self.classes)).astype(np.float64)  # a NaN equals none
        scores[~scores.any(axis=1)] = np.nan
        return torch.from_numpy(scores)

    def probabilities(self, copies: torch.Tensor) -> Float64:
        """float64[rows, classes]: the estimator's own probabilities."""
        known = np.asarray(self.estimator.predict_proba(copies.flatten(1).numpy()), dtype=np.float64)
        shares = np.zeros((len(known), self.classes))
        shares[:, np.asarray(self.estimator.classes_, dtype=np.int64)] = known
        return shares


@dataclass(frozen=True, eq=False)
class TreeModel:
    """Boosted trees, on all cores."""

    trees: Trees

    def __call__(self, copies: torch.Tensor) -> torch.Tensor:
        rows = copies.flatten(1).double().numpy()
        parts = np.array_split(rows, min(cpu_count() or 1, max(1, len(rows) // FEW)))
        if len(parts) == 1:
            return torch.from_numpy(self.trees.scores(rows))
        with ThreadPoolExecutor(len(parts)) as threads:
            return torch.from_numpy(np.concatenate(list(threads.map(self.trees.scores, parts))))
