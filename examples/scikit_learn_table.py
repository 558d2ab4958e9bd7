"""Certifies a scikit-learn estimator on a table: how many columns of a row can change without changing the answer.

`AblatedClassifier` fits the estimator on rows with columns missing at random, and takes the vote of many such copies of
a row. Here the ten measurements come three times each (mean, error, worst): an attacker who falsifies a measurement
falsifies all three, so that they are one unit, and a mask retains 3 of 10 units. There are 120 such masks, all of which
vote: what is certified holds always, there is no alpha.

python examples/scikit_learn_table.py
"""

from __future__ import annotations

from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

from sparsecert.tabular import AblatedClassifier

KEEP = 3  # of 10 measurements
ROWS = 60  # to certify


def main() -> None:
    """Fits, certifies held-out rows, and prints how many measurements may be perturbed."""
    rows, labels = load_breast_cancer(return_X_y=True, as_frame=True)
    train, test, train_labels, test_labels = train_test_split(rows, labels, random_state=0)
    measurement = [name.replace("mean ", "").replace("worst ", "").replace(" error", "") for name in rows.columns]

    base = HistGradientBoostingClassifier(max_iter=40)
    g = AblatedClassifier(base, keep=KEEP, groups=measurement, random_state=0).fit(train, train_labels)
    c = g.certify(test[:ROWS])
    right = c.names == test_labels[:ROWS].to_numpy()
    print(f"{right.mean():.1%} of {len(right)} rows are right, by the votes of all {c.counts[0].sum()} masks")
    for radius in range(c.radii.max() + 1):
        share = (right & (c.radii >= radius)).mean()
        print(f"right whichever {radius} of {len(set(measurement))} measurements are perturbed: {share:.1%}")


if __name__ == "__main__":
    main()
