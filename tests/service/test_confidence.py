"""Bounds that hold at every moment: against the definition, and how often they fail over many whole runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import betaln

from sparsecert import Uniform
from sparsecert.counts import Tally
from sparsecert.service.confidence import anytime_bounds, mixture_interval


@pytest.mark.parametrize(("successes", "trials"), [(0, 5), (5, 5), (1, 40), (30, 100), (999, 1000)])
def test_the_interval_ends_where_the_mixture_reaches_one_over_alpha(successes: int, trials: int) -> None:
    low, high = (edge.item() for edge in mixture_interval(np.array([float(successes)]), trials, 0.01))
    assert 0 <= low <= successes / trials <= high <= 1
    for edge, certain in ((low, 0.0), (high, 1.0)):
        if edge == certain:
            assert successes == trials * certain
            continue
        evidence = betaln(successes + 1, trials - successes + 1) - successes * math.log(edge)
        evidence -= (trials - successes) * math.log1p(-edge)
        assert evidence == pytest.approx(math.log(100), abs=1e-6)


def test_no_votes_say_nothing() -> None:
    assert anytime_bounds(Tally((0, 0)), Uniform(16, 4), 0.05, 100) == ((0.0, 1.0), (0.0, 1.0))


def test_looked_at_after_every_vote_they_fail_less_often_than_alpha() -> None:
    random, alpha, runs, length = np.random.default_rng(0), 0.2, 1_000, 200
    p = random.choice([0.02, 0.3, 0.5], size=runs)
    counts = np.cumsum(random.random((length, runs)) < p, axis=0).astype(np.float64)
    failed = np.zeros(runs, dtype=np.bool_)
    for trials in range(1, length + 1, 4):
        low, high = mixture_interval(counts[trials - 1], trials, alpha)
        failed |= (p < low) | (p > high)
    assert 0 < failed.mean() <= alpha


def test_alpha_is_shared_among_the_classes() -> None:
    two = anytime_bounds(Tally((50, 50)), Uniform(16, 4), 0.05, 100)[0]
    ten = anytime_bounds(Tally((50, 50, *(0,) * 8)), Uniform(16, 4), 0.05, 100)[0]
    assert ten[0] < two[0] < two[1] < ten[1]
