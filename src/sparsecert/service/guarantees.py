"""Guarantees in words: of one certificate, and of all certificates of a model."""

from __future__ import annotations

from decimal import Decimal

from sparsecert.certificates import ELECTED
from sparsecert.procedures.exact import PATCHES


def answer_of(rule: str) -> str:
    """The answer that a rule elects."""
    return ELECTED.get(rule, f"the class elected by {rule}")


def certificate_guarantee(radius: int | None, against: str, alpha: float | None, rule: str, condition: str = "") -> str:
    """What one certificate guarantees; alpha is None where it is deterministic."""
    if radius is None:
        return "Nothing is certified, not even the answer for the unperturbed input."
    claim = f"No {_change(str(radius), against)} changes the answer ({answer_of(rule)}){condition}"
    if alpha is None:
        return f"{claim}. This is deterministic, provided the model gives a copy the same scores in any batch."
    sure = 1 - Decimal(str(alpha))  # in full: rounding might overstate it
    return f"{claim}, with probability at least {sure} over the random masks."


def model_guarantee(against: str, deterministic: bool, rule: str, condition: str = "") -> str:
    """What the certificates of a model guarantee, and what they do not."""
    certainty = "is deterministic" if deterministic else "fails with probability at most alpha over the random masks"
    claim = f"no {_change('`radius`', against)} changes the answer ({answer_of(rule)}){condition}"
    return f"A certificate guarantees that {claim}. It {certainty}, and says nothing about the true class."


def _change(radius: str, against: str) -> str:
    if against == PATCHES:
        return f"perturbed square patch of up to {radius} x {radius} pixels"
    return f"perturbation of up to {radius} {against}"
