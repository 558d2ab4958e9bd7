"""A greedy feature attack: from above, what the certificates bound from below."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils import check_random_state

from sparsecert.counts import Int64
from sparsecert.errors import InputError
from sparsecert.schemes import PREDICTION
from sparsecert.tabular.classifier import AblatedClassifier
from sparsecert.tabular.estimators import EstimatorModel
from sparsecert.tabular.units import units_of

Float = npt.NDArray[np.float64]

SEARCH_MASKS = 128  # that the search looks at; what it finds is judged by the full vote


@dataclass(frozen=True, eq=False)
class Altered:
    """What the attack did to one row: `path[r]` is the row with r units altered, and `wrong[r]` whether that is enough.

    `altered` are the units in the order in which they were altered. Once it is fooled the search ends: `fooled_at` is
    the least number of altered units that it found, None where it found none within its budget.
    """

    path: Float
    wrong: tuple[bool, ...]
    altered: tuple[int, ...]

    @property
    def fooled_at(self) -> int | None:
        """The number of altered units at which the answer was wrong; 0 where it was so before."""
        return self.wrong.index(True) if True in self.wrong else None


def greedy_attack(
    classifier: Any,
    row: Any,
    label: Any,
    donors: Any,
    *,
    most: int = 5,
    groups: Any = None,
    protected: Any = None,
    random_state: Any = 0,
) -> Altered:
    """Alters one unit after the other, each time the one, to the value, that hurts the true class most.

    The values tried for a unit are those of `donors`, rows of the table (best of other classes), and NaN where the
    classifier takes it. Hurt is measured by the lead of the true class in the votes of some masks, then by the mean of
    the estimator's own probability of it; of a plain classifier by that alone. Whether the row is then misclassified is
    for `classifier.predict` to say. An attack that fails proves nothing.

    For an `AblatedClassifier` the units are its own; for any other classifier `groups` and `protected` say them.
    """
    row, donors = np.asarray(row, dtype=np.float64), np.asarray(donors, dtype=np.float64)
    if row.ndim != 1 or donors.ndim != 2 or donors.shape[1] != len(row) or not len(donors):
        raise InputError(f"row must be one row and donors some, as wide, got {row.shape} and {donors.shape}")
    generator = check_random_state(random_state)
    if isinstance(classifier, AblatedClassifier):
        units, lead = classifier.units_, _ablated_lead(classifier, label, generator)
    else:
        units, lead = units_of(len(row), groups, protected, None), _plain_lead(classifier, label)
    path, altered = [row], list[int]()
    wrong = [_is_wrong(classifier, row, label)]
    while not wrong[-1] and len(altered) < min(most, int(units.max()) + 1):
        unit, found = _worst(path[-1], donors, units, altered, lead)
        path.append(found)
        altered.append(unit)
        wrong.append(_is_wrong(classifier, found, label))
    return Altered(np.stack(path), tuple(wrong), tuple(altered))


Lead = Callable[[Float, Int64, Float], Float]  # rows, each from one row by altering that unit, and that row -> leads


def _worst(row: Float, donors: Float, units: Int64, altered: list[int], lead: Lead) -> tuple[int, Float]:
    """The unit that is not altered yet, and the row with the values of it that leave the true class the least lead."""
    tried: list[Float] = []
    which: list[int] = []
    for unit in sorted(set(range(int(units.max()) + 1)) - set(altered)):
        columns = units == unit
        values = np.unique(np.concatenate((donors[:, columns], np.full((1, columns.sum()), np.nan))), axis=0)
        candidates = np.repeat(row[None], len(values), axis=0)
        candidates[:, columns] = values
        tried.append(candidates)
        which += [unit] * len(values)
    candidates = np.concatenate(tried)
    place = int(lead(candidates, np.array(which, dtype=np.int64), row).argmin())
    return which[place], candidates[place]


def _ablated_lead(classifier: AblatedClassifier, label: Any, generator: np.random.RandomState) -> Lead:
    """By the votes of some masks; those that do not retain the perturbed unit say what they said of the row before."""
    smoothed, true = classifier._smoothed(), int(np.searchsorted(classifier.classes_, label))
    model, encoding, classes = smoothed.model, smoothed.encoding, len(classifier.classes_)
    assert isinstance(model, EstimatorModel)
    masks = classifier._masks(PREDICTION, int(classifier.n), classifier.seed_)
    if len(masks) > SEARCH_MASKS:
        masks = masks[generator.choice(len(masks), SEARCH_MASKS, replace=False)]

    def lead(rows: Float, which: Int64, before: Float) -> Float:
        each = torch.from_numpy(before[None]).expand(len(masks), -1)
        shares = np.repeat(model.probabilities(encoding(each, masks))[None], len(rows), axis=0)
        row, mask = np.nonzero(masks[:, which].T.numpy())
        shares[row, mask] = model.probabilities(encoding(torch.from_numpy(rows[row]), masks[mask]))
        votes = np.eye(classes)[shares.argmax(axis=2)].mean(axis=1)
        return _margin(votes, true) + _margin(shares.mean(axis=1), true) / (2 * len(masks))

    return lead


def _plain_lead(classifier: Any, label: Any) -> Lead:
    true = int(np.searchsorted(classifier.classes_, label))
    return lambda rows, which, before: _margin(classifier.predict_proba(rows), true)


def _margin(shares: Float, true: int) -> Float:
    """float64[b]: how far the true class is ahead of the best other."""
    others = np.delete(shares, true, axis=1)
    margin: Float = shares[:, true] - others.max(axis=1)
    return margin


def _is_wrong(classifier: Any, row: Float, label: Any) -> bool:
    return bool(classifier.predict(row[None])[0] != label)
