"""Certificates that a class stays in the top k.

Jia, Cao, Wang & Gong, "Certified Robustness for Top-k Predictions against Adversarial Perturbations via Randomized
Smoothing" (ICLR 2020), for Gaussian noise; here for ablation, by Theorem 1 of Levine & Feizi (2020).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sparsecert.bounds import corrected_alpha
from sparsecert.bounds.clopper_pearson import lower_bound, upper_bound
from sparsecert.certificates.certificate import farthest_rho
from sparsecert.counts import Tally
from sparsecert.errors import check_int
from sparsecert.schemes import Scheme


@dataclass(frozen=True)
class Rivals:
    """Of any k other classes, some `count` have probabilities that add up to at most `total`."""

    count: int
    total: float | Fraction


@dataclass(frozen=True)
class TopK:
    """With probability at least 1 - alpha: fewer than k other classes are as likely as `label`, for every x' at most
    `radius` units away. None: not even at x itself. It says nothing about the true label.
    """

    label: int
    k: int
    radius: int | None


def top_k_radius(p_lower: float | Fraction, rivals: Rivals, scheme: Scheme) -> int | None:
    """The largest rho with count * (p_lower - delta) > total + delta; None if there is none.

    Suppose k other classes were all at least as likely as A at x'. Then so are the `count` of them in `rivals`, whose
    total probability there is at least count * p_A(x') >= count * (p_lower - delta). But together they are one event,
    whose probability grows by at most delta (Theorem 1), to total + delta: a contradiction. With k = 1 this is
    Corollary 2.
    """
    return farthest_rho(scheme, (rivals.count * Fraction(p_lower) - Fraction(rivals.total)) / (rivals.count + 1))


def certify_top_k(
    selection: Tally, estimation: Tally, scheme: Scheme, alpha: float | Fraction, k: int, label: int | None = None
) -> TopK:
    """How many units may be perturbed with `label` (default: the leader of the selection votes) still in the top k.

    A given label, such as the true label of a test input, must not be chosen by the estimation votes. Half of alpha
    goes to its own probability. The other half bounds its rivals in one of two ways, chosen by the selection votes:

    - The k likeliest others together. Which they are is unknown but fixed, so their votes are one binomial count, at
      most the sum of the k largest counts, and the Clopper-Pearson bound grows with the count.
    - The k-th likeliest alone: of any k others, one is no likelier than it. Each of the k likeliest is at least as
      likely; bounds on all k at alpha / 2k each hold together, and the least of their counts is at most the k-th
      largest of all counts.

    Invalid votes are counted for the rivals.
    """
    k = check_int("k", k, 1, len(estimation.votes))
    label = selection.leader() if label is None else check_int("label", label, 0, len(estimation.votes) - 1)
    if k == len(estimation.votes):
        return TopK(label, k, scheme.units)
    level = corrected_alpha(alpha, scheme, estimation.total)
    p_lower = lower_bound(estimation.votes[label], estimation.total, level / 2)
    chosen = max(((k, level / 2), (1, level / (2 * k))), key=lambda way: _margin(selection, label, k, way[0]))
    count, share = chosen
    rivals = Rivals(count, upper_bound(_votes(estimation, label, k, count), estimation.total, share))
    return TopK(label, k, top_k_radius(p_lower, rivals, scheme))


def _margin(tally: Tally, label: int, k: int, count: int) -> Fraction:
    """The margin that these votes would leave for delta, in votes."""
    return Fraction(count * tally.votes[label] - _votes(tally, label, k, count), count + 1)


def _votes(tally: Tally, label: int, k: int, count: int) -> int:
    """An upper bound on the votes for the last `count` of the k strongest rivals, whatever the invalid votes are."""
    rivals = sorted((*tally.votes[:label], *tally.votes[label + 1 :]), reverse=True)
    return sum(rivals[k - count : k]) + tally.invalid
