"""A greedy feature attack: an upper bound where certificates give a lower bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state

from sparsecert.counts import Float64, Int64
from sparsecert.errors import InputError
from sparsecert.schemes import PREDICTION
from sparsecert.tabular.classifier import AblatedClassifier
from sparsecert.tabular.estimators import EstimatorModel
from sparsecert.tabular.units import units_of

SEARCH_MASKS = 128  # used by the search; the full vote judges what it finds


@dataclass(frozen=True, eq=False)
class GreedyResult:
    """The attack on one row: `path[r]` is the row with r units perturbed, `wrong[r]` whether it is misclassified.

    `perturbed` lists the units in order. The search ends at the first misclassified row, or at its budget.
    """

    path: Float64
    wrong: tuple[bool, ...]
    perturbed: tuple[int, ...]

    @property
    def fooled_at(self) -> int | None:
        """How many perturbed units fooled the classifier; 0: it was wrong before, None: it was not fooled."""
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
) -> GreedyResult:
    """Perturbs one unit after another, each time the unit and value that hurt the true class most.

    It tries the values of `donors`, rows of the table (best of other classes), and NaN. The loss is the true class's
    lead in the votes of some masks, with ties broken by the estimator's mean probabilities; for a plain classifier, the
    lead in probability. `classifier.predict` then judges the row. A failed attack proves nothing.

    An `AblatedClassifier` has its own units; for any other classifier, `groups` and `protected` define them.
    """
    try:
        row, donors = np.asarray(row, dtype=np.float64), np.asarray(donors, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"greedy_attack takes rows of numbers ({error}); encode the other columns first") from error
    if row.ndim != 1 or donors.ndim != 2 or donors.shape[1] != len(row) or not len(donors):
        raise InputError(f"row must be 1-D and donors 2-D, equally wide, got {row.shape} and {donors.shape}")
    generator = check_random_state(random_state)
    if isinstance(classifier, AblatedClassifier):
        units, lead = classifier.units_, _ablated_lead(classifier, label, generator)
    else:
        units, lead = units_of(len(row), groups, protected, None), _plain_lead(classifier, label)
    path, perturbed = [row], list[int]()
    wrong = [_is_wrong(classifier, row, label)]
    while not wrong[-1] and len(perturbed) < min(most, int(units.max()) + 1):
        unit, found = _worst(path[-1], donors, units, perturbed, lead)
        path.append(found)
        perturbed.append(unit)
        wrong.append(_is_wrong(classifier, found, label))
    return GreedyResult(np.stack(path), tuple(wrong), tuple(perturbed))


Lead = Callable[[Float64, Int64, Float64], Float64]  # candidates, the unit perturbed in each, the row before -> leads


def _worst(row: Float64, donors: Float64, units: Int64, perturbed: list[int], lead: Lead) -> tuple[int, Float64]:
    """The next unit to perturb and the perturbed row: those that leave the true class the smallest lead."""
    tried: list[Float64] = []
    which: list[int] = []
    for unit in sorted(set(range(int(units.max()) + 1)) - set(perturbed)):
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
    """The lead in the votes of some masks; masks that ablate the perturbed unit vote as before."""
    values = classifier.frame_ and classifier.frame_.encode(None)[1]
    smoothed, true = classifier._smoothed(values), int(np.searchsorted(classifier.classes_, label))
    model, encoding, classes = smoothed.model, smoothed.encoding, len(classifier.classes_)
    assert isinstance(model, EstimatorModel)
    masks = classifier._masks(PREDICTION, int(classifier.n), classifier.seed_)
    if len(masks) > SEARCH_MASKS:
        masks = masks[generator.choice(len(masks), SEARCH_MASKS, replace=False)]

    def lead(rows: Float64, which: Int64, before: Float64) -> Float64:
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


def _margin(shares: Float64, true: int) -> Float64:
    """float64[b]: the lead of the true class over the best other."""
    others = np.delete(shares, true, axis=1)
    margin: Float64 = shares[:, true] - others.max(axis=1)
    return margin


def _is_wrong(classifier: Any, row: Float64, label: Any) -> bool:
    return bool(classifier.predict(row[None])[0] != label)
