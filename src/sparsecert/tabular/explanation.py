"""Which columns the votes of a row hang on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sparsecert.errors import InputError
from sparsecert.schemes import PREDICTION
from sparsecert.tabular.fitting import check_rows

if TYPE_CHECKING:
    from sparsecert.tabular.classifier import AblatedClassifier


@dataclass(frozen=True)
class UnitVotes:
    """How copies vote with one unit retained, and with it ablated: the share of them that votes for the answer.

    NaN where no mask retains, or ablates, it.
    """

    columns: tuple[Any, ...]
    retained: float
    ablated: float

    @property
    def difference(self) -> float:
        """What the unit adds to the answer's share of the votes; below 0 where it speaks against the answer."""
        return self.retained - self.ablated


@dataclass(frozen=True)
class Explanation:
    """The answer to a row, and its units, those first that add most to the answer's votes.

    This describes the masks that voted, all of them or a sample. It is no certificate.
    """

    answer: Any
    units: tuple[UnitVotes, ...]

    def __str__(self) -> str:
        lines = [f"answer {self.answer}; votes for it with each unit retained and ablated"]
        lines += [
            f"{', '.join(map(str, unit.columns))}: {unit.retained:.1%}, {unit.ablated:.1%}" for unit in self.units
        ]
        return "\n".join(lines)


def explain(classifier: AblatedClassifier, row: Any) -> Explanation:
    """The explanation of one row: a frame or array of one row, a Series, or an array of its values."""
    rows, values = check_rows(classifier, _one_row(row))
    smoothed, masks = classifier._smoothed(values), classifier._masks(PREDICTION, int(classifier.n), classifier.seed_)
    scores = smoothed.model(smoothed.encoding(torch.tensor(rows).expand(len(masks), -1), masks))
    valid = torch.isfinite(scores).all(dim=1)
    answer = int(np.searchsorted(classifier.classes_, classifier.predict(_one_row(row))[0]))
    votes = (valid & (scores.argmax(dim=1) == answer)).double().numpy()
    retained = masks.numpy().T
    names = getattr(classifier, "feature_names_in_", np.arange(rows.shape[1]))
    units = [
        UnitVotes(tuple(names[classifier.units_ == unit].tolist()), _mean(votes[shown]), _mean(votes[~shown]))
        for unit, shown in enumerate(retained)
    ]
    ordered = sorted(units, key=lambda unit: -np.nan_to_num(unit.difference))
    return Explanation(classifier.classes_[answer], tuple(ordered))


def _one_row(row: Any) -> Any:
    found = row.to_frame().T if hasattr(row, "to_frame") else row if hasattr(row, "columns") else np.atleast_2d(row)
    if found.ndim != 2 or len(found) != 1:
        raise InputError(f"explain takes one row, got {len(found)}; slice the table")
    return found


def _mean(votes: Any) -> float:
    return float(votes.mean()) if len(votes) else float("nan")
