"""Plurality vote of a fixed set of masks, with a deterministic certificate: no alpha, nothing is estimated.

Levine & Feizi, "Deep Partition Aggregation" (ICLR 2021), for partitions of a training set; here for the units of an
input, and for masks that may overlap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sparsecert.certificates.adversary import Adversary
from sparsecert.counts import Int64


@dataclass(frozen=True)
class ExactCertificate:
    """The class that g returns for x, and for every x' with at most `radius` perturbed units. Deterministic: g is the
    vote of exactly these masks. It says nothing about the true label.
    """

    label: int
    radius: int


def winner(counts: Int64) -> int:
    """The class with most votes; the lowest-numbered one on a tie."""
    return int(counts.argmax())


def firsts(ranks: npt.NDArray[np.integer]) -> Int64:
    """int64[m]: the class that each copy ranks first; the number of classes if it ranks all alike (no opinion)."""
    labels: Int64 = np.where(ranks.min(axis=1) == ranks.max(axis=1), ranks.shape[1], ranks.argmin(axis=1))
    return labels


def tallied(labels: Int64, classes: int) -> Int64:
    """int64[classes]: the votes per class; a label of `classes` or more votes for no class."""
    return np.bincount(labels, minlength=classes)[:classes].astype(np.int64)


def plurality(labels: Int64, classes: int, adversary: Adversary) -> ExactCertificate:
    """The winner A of the votes, int64[m], and how many units may be perturbed without another class winning.

    A class j replaces A only if n_A - n_j falls below 0, or to 0 if j < A, since ties go to the lower class. A mask
    that retains a perturbed unit can lower the difference by 2 if it votes for A (by voting for j), by 0 if it votes
    for j, and by 1 otherwise.
    """
    counts = tallied(labels, classes)
    label = winner(counts)
    rivals = np.array([rival for rival in range(classes) if rival != label], dtype=np.int64)
    costs = against(labels, label, rivals)
    budgets = counts[label] - counts[rivals] - (rivals < label)
    return ExactCertificate(label, int(adversary.radii(costs, budgets).min()))


def against(labels: Int64, leader: int, rivals: Int64) -> Int64:
    """int64[rivals, m]: how much a mask that retains a perturbed unit can lower the lead over each rival."""
    costs: Int64 = 1 + (labels == leader).astype(np.int64) - (labels == rivals[:, None])
    return costs
