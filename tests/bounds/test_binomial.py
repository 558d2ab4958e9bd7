"""tail_at_most, against exact rational sums."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from math import comb

import pytest

from sparsecert.bounds import binomial
from sparsecert.bounds.binomial import LEAST, SCALE, _far_end, _lower_sum_reaches, _upper_sum_from, tail_at_most


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
        ((0, 10, Fraction(0), Fraction(99, 100)), False),
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


def test_the_upper_sum_ends_where_the_rest_is_one_part_in_2_to_the_64() -> None:
    """Odds of one to 2**64 + 1: all that remains after the first term is at most 2**-64 of it."""
    assert _upper_sum_from(0, 1, 1, 2**64 + 1) == SCALE + (SCALE >> 64)
    assert _upper_sum_from(0, 1, 1, 2**64) == SCALE + (SCALE >> 64)


@pytest.mark.parametrize(
    ("i", "trials", "odds"), [(64, 65, 0.3), (64, 300, 0.25), (70, 5_000, 0.01), (900, 10**6, 5e-4)]
)
def test_the_far_end_is_a_geometric_series_rounded_up(i: int, trials: int, odds: float) -> None:
    ratio = Fraction(trials - i, i + 1) * Fraction(odds)
    series = Fraction(0.7) * ratio / (1 - ratio)
    assert series < Fraction(_far_end(0.7, i, trials, odds)) < series * Fraction(1002, 1000)
    term, terms = Fraction(0.7), Fraction(0)
    for place in range(i, min(trials, i + 200)):
        term *= Fraction(trials - place, place + 1) * Fraction(odds)
        terms += term
    assert terms <= series


def test_the_far_end_of_what_does_not_fall_is_infinite() -> None:
    """A ratio up to 1 - 2**-20 is summed: (trials - i) / (i + 1) at even odds."""
    top = (1 << 20) - 1
    assert _far_end(1.0, top, 2 * top, 1.0) == pytest.approx(top * 1.001)
    for trials in (2 * top + 1, 2 * top + 2, 3 * top):
        assert _far_end(1.0, top, trials, 1.0) == math.inf
    assert _far_end(1.0, 9, 9, 0.5) == 0


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


def test_the_last_numbers_that_doubles_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials, probabilities and levels at their limits, and one step beyond."""
    half = Fraction(1, 2)
    assert binomial.proved_in_floats(5, (1 << 50) - 1, Fraction(1, 1 << 50), half)
    assert not binomial.proved_in_floats(5, 1 << 50, Fraction(1, 1 << 50), half)
    assert binomial.proved_in_floats(1, 1, LEAST, half)
    assert not binomial.proved_in_floats(1, 1, LEAST / 2, half)
    assert binomial.proved_in_floats(2, 2, LEAST, LEAST)
    assert not binomial.proved_in_floats(2, 2, LEAST, LEAST / 2)
    for terms in (9 * 10 + 64, 9 * 10 + 63):  # nine standard deviations of 10, and 64
        monkeypatch.setattr(binomial, "MOST_TERMS", terms)
        assert binomial.proved_in_floats(200, 400, half, Fraction(3, 5)) is (terms == 154)


def test_what_the_rounding_of_doubles_might_decide_is_not_proved() -> None:
    """Of one trial the tail is p itself, (1 - p) / p is the one ratio, and all but the slack of 84 terms is exact."""
    slack = Fraction(32 * (4 + 64 + 16), 1 << 53)
    assert binomial.proved_in_floats(1, 1, (1 - slack) / 2, Fraction(1, 2))
    assert not binomial.proved_in_floats(1, 1, (1 - slack) / 2 + Fraction(1, 1 << 53), Fraction(1, 2))


@pytest.mark.parametrize(("successes", "trials", "p"), [(1, 4_000, Fraction(3, 80)), (60, 400, Fraction(1, 2))])
def test_the_far_end_is_part_of_the_tail(successes: int, trials: int, p: Fraction) -> None:
    """Where the terms added up end near the likeliest ones: the tail is almost 1, its complement a closed sum."""
    complement = sum(comb(trials, i) * p**i * (1 - p) ** (trials - i) for i in range(successes))
    assert not binomial.proved_in_floats(successes, trials, p, 1 - complement * Fraction(1001, 1000))
    assert binomial.proved_in_floats(successes, trials, p, 1 - complement * Fraction(9, 10))
