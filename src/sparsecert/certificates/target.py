"""Certificates about one class: one that must not become the answer, or one that must stay above a threshold."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sparsecert.bounds import corrected_alpha
from sparsecert.bounds.clopper_pearson import complement, lower_bound, upper_bound
from sparsecert.certificates.certificate import farthest_rho, largest_rho
from sparsecert.counts import Tally
from sparsecert.errors import InputError, check_int
from sparsecert.schemes import Scheme


@dataclass(frozen=True)
class Averted:
    """With probability at least 1 - alpha: g(x') is not `target`, for every x' at most `radius` units away.

    None: not even at x itself. The answer may be any other class; `label` is one that stays ahead of the target.
    """

    target: int
    label: int
    radius: int | None


@dataclass(frozen=True)
class Flagged:
    """With probability at least 1 - alpha: p_label(x') > `threshold`, for every x' at most `radius` units away.

    None: not even at x itself. Nothing is certified for inputs that are not flagged.
    """

    label: int
    threshold: Fraction
    radius: int | None


def certify_averted(
    selection: Tally, estimation: Tally, scheme: Scheme, alpha: float | Fraction, target: int
) -> Averted:
    """How many units may be perturbed without the answer becoming `target`, which must not be chosen by the votes.

    A is the leader of the selection votes other than the target: fixed, as the target is, before the estimation masks
    are drawn. So each has one binomial count, p_A >= p_lower and p_target <= p_upper hold together at alpha / 2 each,
    and while p_lower - delta > p_upper + delta the target has fewer masks than A at x' (Theorem 1 twice), so it is not
    the answer. Since the rival is known, the votes of the other classes do not matter, unlike in Corollary 2.

    With two classes p_target = 1 - p_A: one bound gives both, at all of alpha. Invalid votes count for the target.
    """
    target = check_int("target", target, 0, len(estimation.votes) - 1)
    if len(estimation.votes) < 2:
        raise InputError("a classifier with one class has no answer but the target")
    others = [(-votes, label) for label, votes in enumerate(selection.votes) if label != target]
    label = min(others)[1]
    level = corrected_alpha(alpha, scheme, estimation.total)
    if len(estimation.votes) == 2:
        p_lower = lower_bound(estimation.votes[label], estimation.total, level)
        p_upper = complement(p_lower)
    else:
        p_lower = lower_bound(estimation.votes[label], estimation.total, level / 2)
        p_upper = upper_bound(estimation.votes[target] + estimation.invalid, estimation.total, level / 2)
    return Averted(target, label, largest_rho(scheme, (Fraction(p_lower) - Fraction(p_upper)) / 2))


def certify_flagged(
    estimation: Tally, scheme: Scheme, alpha: float | Fraction, label: int, threshold: float | Fraction = Fraction(1, 2)
) -> Flagged:
    """How many units may be perturbed with the probability of `label` still above the threshold.

    For asymmetric uses, such as a detector whose alarms must not be suppressed while false alarms cost little: an input
    is flagged if p_label > threshold, and a threshold below 1/2 certifies more alarms at larger radii. The label is
    given, not chosen by the votes, so one Clopper-Pearson bound at all of alpha and Theorem 1 suffice:
    p_label(x') >= p_lower - delta > threshold. Invalid votes do not count for it.
    """
    label = check_int("label", label, 0, len(estimation.votes) - 1)
    if not 0 <= threshold < 1:
        raise InputError(f"threshold must be from 0 to below 1, got {threshold!r}")
    p_lower = lower_bound(estimation.votes[label], estimation.total, corrected_alpha(alpha, scheme, estimation.total))
    return Flagged(label, Fraction(threshold), farthest_rho(scheme, Fraction(p_lower) - Fraction(threshold)))
