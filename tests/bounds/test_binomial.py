"""tail_at_most, against exact rational sums."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import pytest

from sparsecert.bounds.binomial import tail_at_most


def _exact_tail(successes: int, trials: int, p: Fraction) -> Fraction:
    return sum((comb(trials, i) * p**i * (1 - p) ** (trials - i) for i in range(successes, trials + 1)), Fraction(0))


@pytest.mark.parametrize("trials", [1, 2, 7, 40])
@pytest.mark.parametrize("p", [Fraction(1, 1000), Fraction(1, 3), Fraction(1, 2), Fraction(0.9), Fraction(999, 1000)])
def test_it_proves_what_is_true_and_nothing_else(trials: int, p: Fraction) -> None:
    hair = Fraction(1, 1 << 50)
    for successes in range(trials + 1):
        tail = _exact_tail(successes, trials, p)
        assert not tail_at_most(successes, trials, p, tail * (1 - hair))
        assert tail_at_most(successes, trials, p, min(Fraction(1), tail * (1 + hair)) if successes else Fraction(1))


@pytest.mark.parametrize(
    ("arguments", "proved"),
    [
        ((0, 10, Fraction(1, 2), Fraction(99, 100)), False),
        ((11, 10, Fraction(1, 2), Fraction(1, 10**9)), True),
        ((3, 10, Fraction(0), Fraction(1, 10**9)), True),
        ((3, 10, Fraction(1), Fraction(99, 100)), False),
    ],
)
def test_the_ends(arguments: tuple[int, int, Fraction, Fraction], proved: bool) -> None:
    assert tail_at_most(*arguments) is proved
