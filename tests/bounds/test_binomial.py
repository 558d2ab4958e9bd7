"""tail_at_most, against exact rational sums."""

from __future__ import annotations

import random
from fractions import Fraction
from math import comb

import pytest

from sparsecert.bounds import binomial
from sparsecert.bounds.binomial import SCALE, _lower_sum_reaches, _upper_sum_from, tail_at_most


def _exact_tail(successes: int, trials: int, p: Fraction) -> Fraction:
    return sum((comb(trials, i) * p**i * (1 - p) ** (trials - i) for i in range(successes, trials + 1)), Fraction(0))


@pytest.mark.parametrize("trials", [1, 2, 7, 40])
@pytest.mark.parametrize("p", [Fraction(1, 1000), Fraction(1, 3), Fraction(1, 2), Fraction(0.9), Fraction(999, 1000)])
def test_it_proves_what_is_true_and_nothing_else(trials: int, p: Fraction) -> None:
    """Nothing false, however close: a level below the tail by one part in 2**180 is not proved."""
    hair = Fraction(1, 1 << 50)
    for successes in range(trials + 1):
        tail = _exact_tail(successes, trials, p)
        assert not tail_at_most(successes, trials, p, tail * (1 - Fraction(1, 1 << 180)))
        assert tail_at_most(successes, trials, p, min(Fraction(1), tail * (1 + hair)) if successes else Fraction(1))


@pytest.mark.parametrize("trials", [1, 2, 7, 40, 150])
@pytest.mark.parametrize("p", [Fraction(1, 1000), Fraction(1, 3), Fraction(1, 2), Fraction(0.9), Fraction(999, 1000)])
def test_either_proof_by_itself_says_all_that_is_true(
    trials: int, p: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Doubles to a part in 10**9, integers to one in 2**50; neither says what is false by a part in 10**12."""
    for successes in {1, 2, trials // 3, trials // 2, trials - 1, trials} & {*range(1, trials + 1)}:
        tail = _exact_tail(successes, trials, p)
        billionth, trillionth = Fraction(1, 10**9), Fraction(1, 10**12)
        if (successes - trials * p) ** 2 < 4 * trials * p * (1 - p) and tail < Fraction(999, 1000):
            assert binomial.proved_in_floats(successes, trials, p, tail * (1 + billionth))
        assert not binomial.proved_in_floats(successes, trials, p, tail * (1 - trillionth))
        with monkeypatch.context() as only:
            only.setattr(binomial, "proved_in_floats", lambda *_: False)
            assert tail_at_most(successes, trials, p, min(Fraction(1), tail * (1 + Fraction(1, 1 << 50))))
            assert not tail_at_most(successes, trials, p, tail * (1 - Fraction(1, 1 << 180)))


@pytest.mark.parametrize(
    ("arguments", "proved"),
    [
        ((0, 10, Fraction(1, 2), Fraction(99, 100)), False),
        ((11, 10, Fraction(1, 2), Fraction(1, 10**9)), True),
        ((3, 10, Fraction(0), Fraction(1, 10**9)), True),
        ((3, 10, Fraction(1), Fraction(99, 100)), False),
        ((3, 10, Fraction(1), Fraction(1)), True),
        ((0, 10, Fraction(1, 2), Fraction(1)), True),
        ((-1, 10, Fraction(1, 2), Fraction(99, 100)), False),
        ((1, 10, Fraction(1, 1000), Fraction(99, 100)), True),
        ((10, 10, Fraction(999, 1000), Fraction(1, 100)), False),
        ((11, 10, Fraction(1, 2), Fraction(0)), False),
        ((11, 10, Fraction(1, 2), Fraction(-1)), False),
    ],
)
def test_the_ends(arguments: tuple[int, int, Fraction, Fraction], proved: bool) -> None:
    assert tail_at_most(*arguments) is proved


@pytest.mark.parametrize(("successes", "trials"), [(1, 3), (5, 9), (9, 9), (30, 40), (2_000, 10_000), (600, 1_000)])
@pytest.mark.parametrize("p", [Fraction(1, 7), Fraction(1, 2), Fraction(0.9)])
def test_the_sums_are_rounded_away_from_each_other(successes: int, trials: int, p: Fraction) -> None:
    """Upper: at least the exact sum of w(i) = pmf(i) / pmf(successes), its far end included; lower: at most."""
    odds, against = p.numerator, p.denominator - p.numerator
    term, exact_upper = Fraction(1), Fraction(0)
    for i in range(successes, min(trials, successes + 400) + 1):
        exact_upper += term
        term *= Fraction((trials - i) * odds, (i + 1) * against)
    assert _upper_sum_from(successes, trials, odds, against) >= exact_upper * SCALE
    term, exact_lower = Fraction(1), Fraction(0)
    for i in range(successes, max(0, successes - 60), -1):
        term *= Fraction(i * against, (trials - i + 1) * odds)
        exact_lower += term
    if successes <= 60:  # all of them were added up
        assert not _lower_sum_reaches(int(exact_lower * SCALE) + 1, successes, trials, odds, against)


def test_a_sum_that_is_just_what_is_needed_reaches_it() -> None:
    """One success of one at even odds: the only term below is as large as the one at it."""
    assert _lower_sum_reaches(SCALE, 1, 1, 1, 1)
    assert not _lower_sum_reaches(SCALE + 1, 1, 1, 1, 1)


@pytest.mark.parametrize("trials", [1, 7, 100, 1_000, 30_000])
def test_the_proof_in_floats_never_says_more_than_the_integers(trials: int) -> None:
    """At levels that the tail itself is, within a few units in its last places, where rounding could decide."""
    draw = random.Random(trials)
    agreed = 0
    for _ in range(60):
        successes = draw.randint(1, trials)
        p = Fraction(min(0.999, max(0.001, draw.gauss(successes / trials, 1.5 / trials**0.5))))
        odds, against = p.numerator, p.denominator - p.numerator
        upper = binomial._upper_sum_from(successes, trials, odds, against)
        lower, term = 0, binomial.SCALE
        for i in range(successes, 0, -1):
            term = term * i * against // ((trials - i + 1) * odds)
            lower += term
        tail = Fraction(upper, upper + lower)
        for ulps in (-(10**7), -1, 0, 1, 10**7):
            level = tail * (1 + Fraction(ulps, 1 << 52))
            if not 0 < level < 1:
                continue
            proved = binomial.proved_in_floats(successes, trials, p, level)
            assert not proved or level >= tail
            near = abs(p - Fraction(successes, trials)) ** 2 * trials < 4 * p * (1 - p) and tail < Fraction(999, 1000)
            assert proved or ulps < 10**7 or not near
            agreed += proved
    assert agreed >= 50 or trials == 1


@pytest.mark.parametrize(
    ("successes", "trials", "p", "level"),
    [
        (1, 1, Fraction(1, 10**310), Fraction(1, 10**320)),
        (2, 2, Fraction(1, 10**155), Fraction(1, 10**320)),
        (1, 1 << 20, Fraction(5, 1 << 1075), Fraction(1, 1 << 1074)),
        (1, 1, Fraction(3, 1 << 1075), Fraction(28, 10 << 1075)),
        (1, 2, 1 - Fraction(1, 10**200), 1 - Fraction(1, 10**350)),
        ((1 << 56) - 3, 1 << 56, 1 - Fraction(5, 1 << 56), Fraction(1, 10)),
        (1, 1, 1 - Fraction(1, 10**400), Fraction(1, 2)),
        ((1 << 47) + 1, 1 << 48, Fraction(1, 2), Fraction(1, 10**6)),  # too many terms to add up
        (5 * 10**9, 10**10, Fraction(1, 2), Fraction(1, 10)),
    ],
)
def test_what_doubles_cannot_hold_is_left_to_the_integers(
    successes: int, trials: int, p: Fraction, level: Fraction
) -> None:
    assert not binomial.proved_in_floats(successes, trials, p, level)
