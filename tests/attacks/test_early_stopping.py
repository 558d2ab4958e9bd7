"""Some of the votes against all of them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sparsecert.attacks.early_stopping import early_decision, votes_needed
from sparsecert.bounds import predicted
from sparsecert.counts import Tally


@pytest.mark.parametrize("level", [Fraction(1, 20), Fraction(1, 1000), Fraction(1, 2), Fraction(1, 4)])
def test_the_least_lead_is_that_of_the_prediction_rule(level: Fraction) -> None:
    """Every number of votes for two classes, up to 200 in all."""
    needs = votes_needed(200, level)
    for both in range(201):
        for own in range(both + 1):
            answered = predicted(Tally((own, both - own)), level) == 0 and own > both - own
            assert answered == bool(own >= needs[both]), (own, both)


def test_with_all_copies_nothing_is_left_open() -> None:
    needs = votes_needed(100, Fraction(1, 20))
    own = np.arange(101)
    done, answered = early_decision(own, 100 - own, 100, needs, 0.01)
    assert done.all()
    assert answered.tolist() == [bool(votes >= needs[100]) for votes in range(101)]


def test_no_votes_settle_nothing() -> None:
    """All copies so far voted for third classes."""
    done, _ = early_decision(np.array([0]), np.array([0]), 50, votes_needed(100, Fraction(1, 20)), 0.05)
    assert not done.any()


@pytest.mark.parametrize("error", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("share", [0.5, 0.52, 0.53, 0.6])
def test_what_is_settled_is_seldom_wrong(share: float, error: float) -> None:
    """Of a class with this share of 1,600 votes, the first 100: how often the look says other than all votes do.

    The test is exact for a class at the threshold; it then errs either way, each with probability at most `error`, in
    votes that go on at random, so that all votes agree with the look at least half of the time.
    """
    random = np.random.default_rng(0)
    needs = votes_needed(1_600, Fraction(1, 20))
    first = random.binomial(100, share, 20_000)
    later = random.binomial(1_500, share, 20_000)
    done, answered = early_decision(first, 100 - first, 100, needs, error)
    truth = first + later >= needs[1_600]
    assert np.mean(done & (answered != truth)) <= error
    if share == 0.6:
        assert np.mean(done) > 0.1


@pytest.mark.parametrize(("own", "rival"), [(1_000, 990), (170, 160)])
@pytest.mark.parametrize("copies", [625, 1_250])
def test_many_rivals_of_one_strength_refuse_a_class_no_more_often(own: int, rival: int, copies: int) -> None:
    """The class leads nine others, who are level, in all of 10,000 votes; of the first ones the best of nine leads it
    by chance far more often than any single one does.
    """
    random, needs = np.random.default_rng(0), np.arange(10_001) // 2 + 1
    every = [own, *[rival] * 9]
    votes = random.multivariate_hypergeometric([*every, 10_000 - sum(every)], copies, 20_000)
    done, answered = early_decision(votes[:, 0], votes[:, 1:10].max(axis=1), copies, needs, 0.05, rivals=9)
    assert np.mean(done & ~answered) <= 0.05
    assert np.mean(done & ~answered) > 0.005
    alone, _ = early_decision(votes[:, 0], votes[:, 1], copies, needs, 0.05)
    assert np.mean(alone) > 0.01


def test_a_stage_that_could_decide_nothing_stays_undecided_at_the_threshold() -> None:
    needs = votes_needed(1_000, Fraction(1, 20))
    own = np.array([round(100 * needs[1_000] / 1_000)])
    assert not early_decision(own, 100 - own, 100, needs, 0.05)[0].any()
