"""The plurality over a fixed set of masks, with a certificate that holds always: no alpha, nothing is estimated.

Levine & Feizi, "Deep Partition Aggregation" (ICLR 2021), for the parts of a training set; here of an input's units, and
for masks that overlap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sparsecert.certificates.adversary import Adversary

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ExactCertificate:
    """The class that g returns for x, and for every x' in which at most `radius` units are altered. Always, not with
    some probability: g is the vote of exactly these masks. It says nothing about the true label.
    """

    label: int
    radius: int


def winner(counts: Int64) -> int:
    """The class with most votes; the lowest-numbered one on a tie."""
    return int(counts.argmax())


def firsts(ranks: npt.NDArray[np.integer]) -> Int64:
    """int64[m]: the class that each copy ranks first; the number of classes where it ranks all alike: no opinion."""
    labels: Int64 = np.where(ranks.min(axis=1) == ranks.max(axis=1), ranks.shape[1], ranks.argmin(axis=1))
    return labels


def tallied(labels: Int64, classes: int) -> Int64:
    """int64[classes]: the votes of each; a label of `classes` or more is a vote for nobody."""
    return np.bincount(labels, minlength=classes)[:classes].astype(np.int64)


def plurality(labels: Int64, classes: int, adversary: Adversary) -> ExactCertificate:
    """The winner A of the votes, int64[m], and how many units may be altered without another class winning.

    A class j wins in place of A only if n_A - n_j falls below 0, or to 0 where j < A, which ties favour. Of the masks
    that retain an altered unit, one that votes for A can bring the difference down by 2 (by voting for j), one that
    votes for j by nothing, any other by 1.
    """
    counts = tallied(labels, classes)
    label = winner(counts)
    rivals = np.array([rival for rival in range(classes) if rival != label], dtype=np.int64)
    costs = against(labels, label, rivals)
    budgets = counts[label] - counts[rivals] - (rivals < label)
    return ExactCertificate(label, int(adversary.radii(costs, budgets).min()))


def against(labels: Int64, leader: int, rivals: Int64) -> Int64:
    """int64[rivals, m]: by how much a mask that retains an altered unit can bring the lead over each rival down."""
    costs: Int64 = 1 + (labels == leader).astype(np.int64) - (labels == rivals[:, None])
    return costs
