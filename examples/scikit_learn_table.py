"""Certifies a scikit-learn estimator on a table: no change of so many columns of a row alters the answer.

The estimator has to take missing values (NaN), for a column that is ablated is missing; gradient boosting does. It is
trained on rows with columns missing at random, and given to `Smoothed` as a function.

python examples/scikit_learn_table.py
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

import sparsecert as sc

KEEP = 5  # of 30 columns
COPIES = 8  # of each training row, each with other columns missing
Table = npt.NDArray[np.float64]


class Missing:
    """Ablated copies as rows with NaN in place of NULL, scored by an estimator.

    `NullChannels` shows a value s as (s, 1 - s), which add up to 1, and NULL as (0, 0).
    """

    def __init__(self, estimator: HistGradientBoostingClassifier) -> None:
        self.estimator = estimator

    def __call__(self, copies: torch.Tensor) -> torch.Tensor:
        """Probabilities Float[rows, classes] of copies Float[rows, 2, columns]."""
        retained = copies.sum(dim=1) > 0.5
        rows = torch.where(retained, copies[:, 0], torch.nan)
        return torch.from_numpy(self.estimator.predict_proba(rows.numpy()))


def scaled(train: Table, test: Table) -> tuple[Table, Table]:
    """Both with the training set's least and largest value of each column as 0 and 1: constants, not of the row."""
    low, high = train.min(axis=0), train.max(axis=0)
    return (train - low) / (high - low), np.clip((test - low) / (high - low), 0, 1)


def main() -> None:
    """Trains on rows with missing columns, certifies held-out rows, prints how many columns may be altered."""
    rows, labels = load_breast_cancer(return_X_y=True)
    train, test, train_labels, test_labels = train_test_split(rows, labels, random_state=0)
    train, test = scaled(train, test)

    scheme = sc.Uniform(units=rows.shape[1], keep=KEEP)
    masks = scheme.masks(0, range(len(train)), range(sc.TRAINING, sc.TRAINING + COPIES)).flatten(0, 1).numpy()
    estimator = HistGradientBoostingClassifier(max_iter=40, random_state=0)
    estimator.fit(np.where(masks, train.repeat(COPIES, axis=0), np.nan), train_labels.repeat(COPIES))

    g = sc.Smoothed(Missing(estimator), scheme, sc.NullChannels(), rows=20_000)
    c = g.certify(torch.from_numpy(test[:40]).float(), n0=100, n=2_000, alpha=0.05, seed=0)
    right = c.labels == test_labels[:40]
    print(f"{right.mean():.1%} of {len(c)} rows are right; {c.abstained.sum()} abstain")
    for rho in range(c.radii.max() + 1):
        print(f"right whichever {rho} of {rows.shape[1]} columns are altered: {(right & (c.radii >= rho)).mean():.1%}")


if __name__ == "__main__":
    main()
