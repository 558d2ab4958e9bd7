"""Classifiers of rows as models: copies in, scores out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from os import cpu_count
from typing import Any

import numpy as np
import torch

from sparsecert.counts import Bool, Float64, Int64
from sparsecert.tabular.frames import FrameValues
from sparsecert.tabular.trees import Trees
from sparsecert.tabular.units import PROTECTED

FEW = 256  # fewer copies are not worth a thread


@dataclass(frozen=True, eq=False)
class EstimatorModel:
    """A fitted scikit-learn classifier of 0, 1, ..., classes - 1: its answer scores 1, other classes 0.

    An answer outside its classes (an estimator may reject a row) scores NaN, so the copy votes for no class. With
    `ranks` the scores are its probabilities, if it has them. With `frame` it sees the frames that rows stand for.
    """

    estimator: Any
    classes: int
    ranks: bool = False
    frame: FrameValues | None = None

    def __call__(self, copies: torch.Tensor) -> torch.Tensor:
        if self.ranks and hasattr(self.estimator, "predict_proba"):
            return torch.from_numpy(self.probabilities(copies))
        answers = np.asarray(self.estimator.predict(self._rows(copies)))
        scores = (answers.reshape(-1, 1) == np.arange(self.classes)).astype(np.float64)  # a NaN equals none
        scores[~scores.any(axis=1)] = np.nan
        return torch.from_numpy(scores)

    def probabilities(self, copies: torch.Tensor) -> Float64:
        """float64[rows, classes]: the estimator's own probabilities."""
        known = np.asarray(self.estimator.predict_proba(self._rows(copies)), dtype=np.float64)
        shares = np.zeros((len(known), self.classes))
        shares[:, np.asarray(self.estimator.classes_, dtype=np.int64)] = known
        return shares

    def _rows(self, copies: torch.Tensor) -> Any:
        """The copies as the estimator takes them."""
        rows = copies.flatten(1).numpy()
        return rows if self.frame is None else self.frame(rows)


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


@dataclass(frozen=True, eq=False)
class PerPart:
    """A model for each mask of a fixed set. It sees the columns of the mask and the protected ones, and no others.

    columns: bool[masks, columns], those that each model sees. Takes what `NotANumber` shows if it is marked: the marks
    say of which mask a copy is, whatever its values.
    """

    models: Sequence[Callable[[torch.Tensor], Any]]
    columns: Bool
    classes: int

    @cached_property
    def _numbers(self) -> dict[bytes, int]:
        return {seen.tobytes(): number for number, seen in enumerate(self.columns)}

    def __call__(self, copies: torch.Tensor) -> torch.Tensor:
        values, marks = copies[:, 0], copies[:, 1].numpy() != 0
        masks = np.array([self._numbers[mark.tobytes()] for mark in marks])
        scores = torch.empty(len(copies), self.classes, dtype=torch.float64)
        for number in np.unique(masks).tolist():
            rows = torch.from_numpy(masks == number)
            scores[rows] = torch.as_tensor(self.models[number](values[rows][:, self.columns[number]]))
        return scores


def columns_of(table: Bool, units: Int64) -> Bool:
    """bool[masks, columns]: the columns of the units that each mask retains, and the protected ones."""
    seen: Bool = np.where(units == PROTECTED, True, table[:, units])
    return seen
