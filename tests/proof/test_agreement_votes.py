"""Bounds, and certificates from votes, against `slow.py`: exact rationals, every radius tried."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from sparsecert.bounds import predicted
from sparsecert.bounds.clopper_pearson import lower_bound, upper_bound
from sparsecert.bounds.interval import Interval, Lead
from sparsecert.certificates import CERTIFICATES, certify_anytime
from sparsecert.certificates.anytime import stakes_of
from sparsecert.certificates.random_values import lead, majority, needed, thresholds
from sparsecert.certificates.top_k import Rivals, top_k_radius
from sparsecert.counts import Counts
from sparsecert.schemes import RandomValues, Uniform
from tests.proof import slow
from tests.proof.everything import NOISES, STATISTICAL, TARGETED, TINY, Listed, Statistical, level_of, ranked, tally

HAIR = Fraction(1, 1 << 38)


@pytest.mark.parametrize("trials", [1, 2, 7, 24])
def test_the_bounds_of_clopper_and_pearson(trials: int) -> None:
    for successes in range(trials + 1):
        for level in (Fraction(1, 20), Fraction(1, 1000), Fraction(1, 2), Fraction(4, 5)):
            exact = slow.clopper_pearson(successes, trials, level)
            assert -HAIR < exact - Fraction(lower_bound(successes, trials, level)) < HAIR
            mirrored = 1 - slow.clopper_pearson(trials - successes, trials, level)
            assert -HAIR < Fraction(upper_bound(successes, trials, level)) - mirrored < HAIR


@pytest.mark.parametrize("name", CERTIFICATES)
def test_every_interval_of_few_votes(name: str) -> None:
    for votes in slow.multinomials(9, 4):
        for label in range(3):
            selection = tuple(int(other == label) for other in range(4))
            for level in (Fraction(1, 20), Fraction(1, 3)):
                found = CERTIFICATES[name].bound(tally(selection), ranked(name, tally(votes), label), level)
                low, high = slow.interval(name, label, votes, level)
                assert found.label == label
                assert -HAIR < low - Fraction(found.p_lower) < HAIR
                assert -HAIR < Fraction(found.p_upper) - high < HAIR


def test_every_prediction_of_few_votes() -> None:
    for votes in (*slow.multinomials(12, 4), *slow.multinomials(23, 3)):
        for level in (Fraction(1, 20), Fraction(1, 2), Fraction(1, 16)):
            assert predicted(tally(votes), level) == slow.predicted(votes, level)


def _some_votes(chance: random.Random, classes: int, total: int) -> slow.Votes:
    weights = [chance.random() ** 3 for _ in range(classes)] + [chance.choice([0.0, 0.0, 0.1])]
    chosen = chance.choices(range(classes + 1), weights, k=total)
    return tuple(chosen.count(label) for label in range(classes + 1))


@pytest.mark.parametrize("name", CERTIFICATES)
def test_stakes_and_the_leads_that_are_proved(name: str) -> None:
    chance, scheme, seen = random.Random(5), Uniform(12, 2), set()
    for _ in range(150):
        selection, votes = (_some_votes(chance, chance.choice([2, 3, 5]), total) for total in (12, 60))
        votes = (*votes[:-1], *[0] * (len(selection) - len(votes)), votes[-1])[-len(selection) :]
        most, level = (
            chance.choice([1, 4, 9, 60, 5_000, 10**6]),
            chance.choice([Fraction(9, 10), Fraction(1, 3), Fraction(1, 10**5)]),
        )
        label = slow.leader(selection)
        chosen, counted = (ranked(name, tally(each), label) for each in (selection, votes))
        assert stakes_of(Counts.of(chosen), name, most, level) == [slow.stake(selection, name, most, level)]
        found = certify_anytime(chosen, counted, scheme, level, name, 60)
        assert isinstance(found.interval, Lead)
        radius = -1 if found.radius is None else found.radius
        assert found.interval.lead == (-1 if radius < 0 else Fraction(2 * scheme.deltas[radius], 1 << 128))
        seen.add(radius)
    assert len(seen) > 3


def test_no_radius_where_the_margin_is_nothing_and_all_but_one_unit_where_it_is_large() -> None:
    assert top_k_radius(Fraction(3, 10), Rivals(1, Fraction(3, 10)), Uniform(9, 2)) is None
    assert top_k_radius(Fraction(1), Rivals(2, Fraction(0)), Uniform(2, 1)) == 1
    assert top_k_radius(Fraction(1), Rivals(1, Fraction(0)), Uniform(2, 1)) == 0


@pytest.mark.parametrize("certificate", [*STATISTICAL, *TARGETED], ids=str)
@pytest.mark.parametrize("one", TINY, ids=str)
def test_radii_from_votes(certificate: Statistical, one: Listed) -> None:
    chance, deltas = random.Random(str(one)), one.deltas
    for turn in range(14):
        classes = chance.choice([max(2, certificate.k), 3, 4])
        selection = _some_votes(chance, classes, chance.choice([0, 1, 10, 30]))
        votes = _some_votes(chance, classes, chance.choice([1, 5, 40, 60]))
        if turn % 2:  # in the same proportions, so that much is certified
            votes = tuple(count * chance.choice([4, 5]) for count in selection)
            votes = votes if sum(votes) else (7, *votes[1:])
        alpha = chance.choice([Fraction(1, 20), Fraction(1, 3), Fraction(1, 1000)])
        level = level_of(certificate, one.scheme, alpha, sum(votes))
        found = certificate.certify(tally(selection), tally(votes), one.scheme, alpha)
        assert found == certificate.slowly(selection, votes, deltas, level), (selection, votes, alpha)


@pytest.mark.parametrize("certificate", [*STATISTICAL, *TARGETED], ids=str)
def test_radii_of_many_units(certificate: Statistical) -> None:
    """One unit of 400 is retained, so that delta is rho / 400: radii tell small differences apart."""
    chance, scheme, seen = random.Random(6), Uniform(400, 1), set()
    deltas = [Fraction(rho, 400) for rho in range(401)]
    for _ in range(24):
        weights = [8, chance.choice([1, 3]), chance.choice([0.2, 1]), chance.choice([0.1, 1]), chance.choice([0, 0.2])]
        drawn = [chance.choices(range(5), weights, k=total) for total in (30, 90)]
        selection, votes = (tuple(each.count(label) for label in range(5)) for each in drawn)
        level = level_of(certificate, scheme, Fraction(1, 20), sum(votes))
        found = certificate.certify(tally(selection), tally(votes), scheme, Fraction(1, 20))
        assert found == certificate.slowly(selection, votes, deltas, level), (selection, votes)
        seen.add(found[1])
    assert len(seen) > 8


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_what_random_values_need(noise: RandomValues) -> None:
    most = 4 if noise.values < 4 else 3
    expected = [slow.needed(noise.values, noise.kappa, rho) for rho in range(most + 1)]
    assert [needed(noise, rho) for rho in range(most + 1)] == expected
    listed = [*thresholds(noise)][: most + 1]
    assert listed == [least for least in expected if least < 1]
    for rho, least in enumerate(listed):
        for theorem in (majority, lead):
            assert theorem(Interval(0, least, 1 - least), noise) == (rho - 1 if rho else None)
            assert theorem(Interval(0, least + HAIR, 1 - least - HAIR), noise) == rho
