"""How often the bounds and the prediction are wrong, over thousands of simulated runs."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sparsecert.bounds import corrected_alpha, predicted
from sparsecert.bounds.clopper_pearson import complement
from sparsecert.certificates import CERTIFICATES
from sparsecert.counts import Tally
from sparsecert.errors import InputError
from sparsecert.schemes import Uniform
from tests.contracts import METHOD_NAMES
from tests.helpers import acceptable

RUNS = 4_000

# The top two close together, many rivals alike, a clear winner, a certain winner, invalid votes (the last share).
WORLDS = [
    [0.42, 0.40, 0.18, 0.0],
    [0.19, *[0.09] * 9, 0.0],
    [0.85, 0.1, 0.05, 0.0],
    [1.0, 0.0, 0.0, 0.0],
    [0.5, 0.3, 0.1, 0.1],
]


def _tallies(world: list[float], n: int, seed: int) -> list[Tally]:
    rows = np.random.default_rng(seed).multinomial(n, world, size=RUNS)
    return [Tally(tuple(row[:-1].tolist()), int(row[-1])) for row in rows]


@pytest.mark.parametrize("name", METHOD_NAMES)
@pytest.mark.parametrize("world", WORLDS, ids=str)
@pytest.mark.parametrize("alpha", [0.05, 0.3])
def test_intervals_miss_the_true_probabilities_within_alpha(name: str, world: list[float], alpha: float) -> None:
    bound = CERTIFICATES[name].bound
    selections, estimations = _tallies(world, 30, seed=1), _tallies(world, 150, seed=2)
    misses = 0
    for selection, estimation in zip(selections, estimations, strict=True):
        interval = bound(selection, estimation, Fraction(alpha))
        # An invalid copy may stand for any class: p_upper has to cover the rival's probability and theirs together
        rival = max(p for c, p in enumerate(world[:-1]) if c != interval.label) + world[-1]
        misses += interval.p_lower > world[interval.label] or interval.p_upper < rival
    assert acceptable(misses, RUNS, alpha)


@pytest.mark.parametrize("world", [[0.505, 0.495, 0.0], [0.5, 0.5, 0.0], [0.34, 0.33, 0.33, 0.0], [0.45, 0.4, 0.15]])
def test_predictions_are_wrong_within_alpha(world: list[float]) -> None:
    """Wrong: a class that is not the most likely one. At an exact tie every answer is counted as wrong."""
    alpha = 0.2
    best = [c for c, p in enumerate(world[:-1]) if p == max(world[:-1])]
    right = best[0] if len(best) == 1 else None
    answers = [predicted(tally, Fraction(alpha)) for tally in _tallies(world, 120, seed=3)]
    assert acceptable(sum(answer is not None and answer != right for answer in answers), RUNS, alpha)


def test_prediction_is_the_exact_two_sided_binomial_test() -> None:
    from scipy.stats import binomtest

    for leader in range(51, 101):
        tally, alpha = Tally((100 - leader, leader, 0)), Fraction(1, 20)
        expected = 1 if binomtest(leader, 100, 0.5).pvalue <= 0.05 else None
        assert predicted(tally, alpha) == expected


@pytest.mark.parametrize(
    ("tally", "answer"),
    [
        (Tally((1000, 0, 0)), 0),
        (Tally((500, 500, 0)), None),
        (Tally((0, 0, 0), invalid=1000), None),
        (Tally((400, 0, 0), invalid=600), None),  # a two-sided test alone would have "rejected" in the wrong direction
        (Tally((0, 1, 0)), None),
    ],
)
def test_prediction_at_the_ends(tally: Tally, answer: int | None) -> None:
    assert predicted(tally, Fraction(1, 20)) == answer


def test_invalid_votes_count_for_the_rival_and_never_for_the_leader() -> None:
    clean, spoiled = Tally((80, 15, 5), 0, (100, 80, 85)), Tally((80, 15, 0), 5, (95, 80, 85))
    assert spoiled.total == clean.total == 100
    assert spoiled.rival(0) == 20
    for method in CERTIFICATES.values():
        intervals = [method.bound(clean, tally, Fraction(1, 20)) for tally in (clean, spoiled)]
        assert intervals[0].p_lower == intervals[1].p_lower
        assert intervals[0].p_upper <= intervals[1].p_upper


def test_the_rival_is_never_given_more_than_the_leader_leaves() -> None:
    """p_upper <= 1 - p_lower whatever the votes, so that Corollary 2 contains Corollary 1 at alpha / 2."""
    for leader in range(41):
        for invalid in range(41 - leader):
            tally = Tally((leader, 40 - leader - invalid, 0), invalid)
            interval = CERTIFICATES["two-sided"].bound(Tally((1, 0, 0)), tally, Fraction(1, 20))
            assert interval.p_upper <= complement(float(interval.p_lower))


def test_ties_go_to_the_lowest_class() -> None:
    assert Tally((3, 7, 7)).leader() == 1


def test_alpha_pays_for_the_masks() -> None:
    scheme = Uniform(784, 45)
    left = corrected_alpha(0.05, scheme, 10_000)
    exact = Fraction(0.05) - 10_000 * scheme.nonuniformity
    assert exact * (1 - Fraction(1, 1 << 28)) < left <= exact
    assert 0 < Fraction(0.05) - left < Fraction(1, 10**10)


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 1.5, float("nan")])
def test_an_alpha_that_is_no_probability_is_refused(alpha: float) -> None:
    with pytest.raises(InputError, match="alpha must be between 0 and 1"):
        corrected_alpha(alpha, Uniform(784, 45), 100)


def test_an_alpha_smaller_than_the_charge_is_refused() -> None:
    with pytest.raises(InputError, match="too small"):
        corrected_alpha(1e-12, Uniform(784, 45), 100_000)
