"""Radii from intervals: the two corollaries, written out again from the paper and compared."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sparsecert.bounds import Interval
from sparsecert.certificates import CERTIFICATES, corollary_1, corollary_2, largest_rho, theorem_name
from sparsecert.certificates.certificate import farthest_rho
from sparsecert.counts import Counts, Tally
from sparsecert.errors import InputError
from sparsecert.schemes import RandomValues, Scheme, Uniform
from tests.contracts import SCHEMES


def _radius_by_search(scheme: Scheme, holds: object) -> int | None:
    assert callable(holds)
    rho = -1
    while rho + 1 <= scheme.units and holds(scheme.delta(rho + 1)):
        rho += 1
    return None if rho < 0 else rho


PROBABILITIES = [0.0, 0.3, 0.5, 0.5000000000000001, 0.55, 0.7, 0.9, 0.999, 1.0]


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
@pytest.mark.parametrize("p_lower", PROBABILITIES)
def test_the_corollaries_as_the_paper_states_them(scheme: Scheme, p_lower: float) -> None:
    exact = Fraction(p_lower)
    one = Interval(0, p_lower, 1.0)
    assert corollary_1(one, scheme) == _radius_by_search(scheme, lambda delta: exact - delta > Fraction(1, 2))
    for p_upper in (0.0, 0.01, 0.2, 1 - p_lower):
        upper = Fraction(p_upper)
        expected = _radius_by_search(scheme, lambda delta, upper=upper: exact - delta > upper + delta)
        assert corollary_2(Interval(0, p_lower, p_upper), scheme) == expected


@pytest.mark.parametrize("scheme", [Uniform(12, 3), Uniform(784, 45), Uniform(64, 20)], ids=str)
def test_the_inequality_is_strict_to_the_last_digit(scheme: Scheme) -> None:
    hair = Fraction(1, 1 << 110)
    for rho in range(1, len(scheme.deltas) - 1):
        assert largest_rho(scheme, Fraction(scheme.delta(rho))) == rho - 1
        assert largest_rho(scheme, scheme.delta(rho) + hair) == rho
    assert largest_rho(scheme, Fraction(0)) is None
    assert largest_rho(scheme, Fraction(-1, 3)) is None
    assert largest_rho(scheme, hair) == 0


@pytest.mark.parametrize("scheme", [Uniform(5, 2), Uniform(4, 4), RandomValues(3, "0.5", 3)], ids=str)
def test_the_farthest_radius_is_among_all_units_and_not_beyond_them(scheme: Scheme) -> None:
    """Random values may leave something in common when all of them are perturbed: then every unit is certified."""
    for part in range(-3, 103):
        margin = Fraction(part, 100)
        below = [rho for rho in range(scheme.units + 1) if scheme.delta(rho) < margin]
        assert farthest_rho(scheme, margin) == max(below, default=None)


def test_a_rival_at_one_minus_p_lower_makes_corollary_2_corollary_1() -> None:
    scheme = Uniform(784, 45)
    for thousandth in range(501, 1000):
        p = Fraction(thousandth, 1000)
        assert corollary_2(Interval(0, p, 1 - p), scheme) == corollary_1(Interval(0, p, 1 - p), scheme)


def test_the_two_sided_bound_certifies_without_a_majority() -> None:
    """40% against nine rivals of 7% or less: no majority, so Corollary 1 abstains, and Corollary 2 need not."""
    votes = Tally((4_000, *[666] * 9, 6))
    one, two = (CERTIFICATES[name].certify(votes, votes, Uniform(784, 20), 0.05) for name in ("one-sided", "two-sided"))
    assert (one.radius, one.label) == (None, None)
    assert two.radius is not None
    assert two.radius >= 5
    assert two.label == 0


def test_radii_never_fall_with_more_votes_for_the_leader() -> None:
    scheme = Uniform(784, 45)
    for method in CERTIFICATES.values():
        votes = [Tally((count, 1_000 - count), above=(1_000, count)) for count in range(500, 1_001)]
        radii = [method.certify(Tally((1, 0)), tally, scheme, 0.05).radius for tally in votes]
        numbers = [-1 if radius is None else radius for radius in radii]
        assert numbers == sorted(numbers)
        assert numbers[0] == -1
        assert numbers[-1] > 8


def test_what_each_method_compares_when_votes_are_stopped() -> None:
    """With the strongest rival, to which invalid copies may belong; and with the rival named, of which it is known."""
    votes = Counts(
        np.array([[50, 20, 25, 0], [3, 60, 4, 30]]), np.array([5, 3]), np.array([[95, 72, 66, 90], [81, 97, 78, 64]])
    )
    label, rival = np.array([0, 1]), np.array([1, 0])
    expected = {
        "one-sided": (([50, 60], [50, 40]), ([50, 60], [50, 40])),
        "two-sided": (([50, 60], [30, 33]), ([50, 60], [20, 3])),
        "pairwise": (([66, 64], [34, 36]), ([72, 81], [28, 19])),
    }
    assert {*expected} == {name for name, method in CERTIFICATES.items() if method.compared is not None}
    for name, each in expected.items():
        compared = CERTIFICATES[name].compared
        assert compared is not None
        found = compared(votes, label), compared(votes, label, rival)
        assert tuple(tuple(counts.tolist() for counts in pair) for pair in found) == each
    assert votes.votes.tolist() == [[50, 20, 25, 0], [3, 60, 4, 30]]


def test_which_class_each_method_elects() -> None:
    rules = {name: CERTIFICATES[name].rule for name in ("one-sided", "two-sided", "pairwise")}
    assert rules == {"one-sided": "plurality", "two-sided": "plurality", "pairwise": "pairwise"}


def test_an_unknown_bound_is_refused() -> None:
    with pytest.raises(InputError, match=f"bound must be one of {', '.join(CERTIFICATES)}, got 'three-sided'"):
        CERTIFICATES["three-sided"]


def test_the_theorem_that_a_header_names() -> None:
    """The tight one for random values, unless the votes were stopped."""
    ablation, noise, stopped = Uniform(9, 2).config(), RandomValues(9, "0.5", 3).config(), {"rule": "at 95%"}
    assert [theorem_name("two-sided", ablation, sampling) for sampling in (None, stopped)] == ["corollary-2"] * 2
    assert [theorem_name("one-sided", ablation, sampling) for sampling in (None, stopped)] == ["corollary-1"] * 2
    assert theorem_name("two-sided", noise, None) == "random-values-lead"
    assert theorem_name("one-sided", noise, None) == "random-values-majority"
    assert theorem_name("two-sided", noise, stopped) == "corollary-2"
    assert theorem_name("one-sided", noise, stopped) == "corollary-1"
