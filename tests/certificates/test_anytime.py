"""Certificates at a stopping time: against exact wealth, and against an adversary who stops when they are wrong."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import betaincinv

from sparsecert.bounds import Interval, corrected_alpha
from sparsecert.bounds.betting import STAKES
from sparsecert.certificates import CERTIFICATES, certify_anytime, corollary_1, corollary_2, largest_rho
from sparsecert.certificates.anytime import gap_at, stakes_of
from sparsecert.counts import Counts, Tally
from sparsecert.schemes import Scheme, Uniform
from tests.contracts import ANYTIME_NAMES, SCHEMES
from tests.helpers import acceptable

SMALL = Uniform(12, 2)  # delta: 0, 1/6, 7/22, 5/11, 19/33
N0, MOST, RUNS = 12, 320, 3_000

Shares = tuple[Fraction, ...]  # of the classes, and last of the invalid copies
Ints = npt.NDArray[np.int64]


def _many(rivals: int, lead: Fraction) -> Shares:
    """A leader and so many rivals alike."""
    rival = (1 - lead) / (rivals + 1)
    return (rival + lead, *[rival] * rivals, Fraction(0))


def _at(radius: int, share: Fraction, invalid: Fraction = Fraction(0), beyond: Fraction = Fraction(0)) -> Shares:
    """Leader and rival with the lead that Corollary 2 at the radius just does not accept; a third class has the rest.

    `share` is what leader, rival and the invalid copies, which may be the rival's, have together.
    """
    lead = gap_at(SMALL, radius) + beyond
    leader, rival = (share + lead) / 2, (share - lead) / 2
    return leader, rival - invalid, 1 - share, invalid


HALF = Fraction(1, 2)
WORLDS: dict[str, Shares] = {
    "tied": (HALF, HALF, Fraction(0)),
    "tied by three": (*[Fraction(1, 3)] * 3, Fraction(0)),
    "radius 1, two classes": _at(1, Fraction(1)),
    "radius 1, a third class": _at(1, Fraction(4, 5)),
    "radius 2, a third class": _at(2, Fraction(9, 10)),
    "radius 3, two classes": _at(3, Fraction(1)),
    "radius 1, below": _at(1, Fraction(9, 10), beyond=Fraction(-1, 100)),
    "radius 1, just beyond": _at(1, Fraction(9, 10), beyond=Fraction(1, 10**9)),
    "radius 1, invalid copies": _at(1, Fraction(9, 10), invalid=Fraction(1, 5)),
    "radius 1, thirty rivals": _many(30, gap_at(SMALL, 1)),
    "the leader barely leads": _many(9, Fraction(1, 50)),
}


def _lead(shares: Shares, label: int, bound: str) -> Fraction:
    """What the lead of the label truly is, invalid copies counted for whoever they hurt it most by."""
    if bound == "one-sided":
        return 2 * shares[label] - 1
    return shares[label] - max(p for c, p in enumerate(shares[:-1]) if c != label) - shares[-1]


def _first_wrong(scheme: Scheme, lead: Fraction) -> int | None:
    """The least radius that the corollary does not give; None where it gives every one."""
    wrong = [rho for rho in range(len(scheme.deltas) - 1) if lead <= gap_at(scheme, rho)]
    return min(wrong, default=None)


def _drawn(shares: Shares, runs: int, seed: int) -> tuple[list[Tally], npt.NDArray[np.int16]]:
    """Selection votes, and the running counts after each of MOST estimation votes: [runs, MOST, classes + 1]."""
    chance, p = np.random.default_rng(seed), np.array([float(share) for share in shares])
    selections = [_tally(row) for row in chance.multinomial(N0, p / p.sum(), size=runs)]
    votes = chance.choice(len(p), size=(runs, MOST), p=p / p.sum())
    return selections, np.cumsum(votes[:, :, None] == np.arange(len(p)), axis=1, dtype=np.int16)


def _tally(row: Ints) -> Tally:
    return Tally(tuple(row[:-1].tolist()), int(row[-1]))


def _against(counts: Ints, label: int, bound: str) -> tuple[Ints, Ints, Ints]:
    """Votes for the label, for the rival with every invalid one, and for neither, after each vote."""
    leader, total = counts[:, label], counts.sum(axis=1)
    rival = total - leader if bound == "one-sided" else np.delete(counts[:, :-1], label, 1).max(axis=1) + counts[:, -1]
    return leader, rival, total - leader - rival


@pytest.mark.parametrize("bound", ANYTIME_NAMES)
@pytest.mark.parametrize("alpha", [0.05, 0.3])
@pytest.mark.parametrize("world", WORLDS)
def test_an_adversary_who_looks_after_every_vote_finds_an_error_within_alpha(
    world: str, alpha: float, bound: str
) -> None:
    """The votes are stopped as soon as the certificate is wrong: says a radius at which the corollary truly fails.

    When that is, is computed here in floating point for every vote of every run, and asked of the certificate itself
    at the moments that decide and at others by chance.
    """
    shares, enough, errors = WORLDS[world], -np.log(float(corrected_alpha(alpha, SMALL, MOST))), 0
    selections, counts = _drawn(shares, RUNS, seed=11)
    for run, (selection, row) in enumerate(zip(selections, counts, strict=True)):
        first_wrong = _first_wrong(SMALL, _lead(shares, selection.leader(), bound))
        if first_wrong is None:
            continue
        stake, gap = _stake(selection, bound, alpha) / STAKES, float(gap_at(SMALL, first_wrong))
        leader, rival, others = _against(row.astype(np.int64), selection.leader(), bound)
        wealth = leader * np.log1p(stake * (1 - gap)) + rival * np.log1p(-stake * (1 + gap))
        wealth += others * np.log1p(-stake * gap)
        wrong = wealth >= enough
        errors += wrong.any()
        asked = {int(wrong.argmax())} if wrong.any() else set()
        if run % 8 == 0:
            asked |= {int(wealth.argmax()), run % MOST}
        for moment in asked:
            radius = certify_anytime(selection, _tally(row[moment]), SMALL, alpha, bound, MOST).radius
            says_wrong = radius is not None and radius >= first_wrong
            assert says_wrong == wrong[moment] or abs(wealth[moment] - enough) < 1e-9
    assert acceptable(errors, RUNS, alpha)


@cache
def _stake(selection: Tally, bound: str, alpha: float) -> int:
    return stakes_of(Counts.of(selection), bound, MOST, corrected_alpha(alpha, SMALL, MOST))[0]


@pytest.mark.parametrize("bound", ANYTIME_NAMES)
def test_the_certificate_itself_after_every_vote_errs_within_alpha(bound: str) -> None:
    """No arithmetic but the certificate's own, on the world of two classes, where counts repeat."""
    alpha, shares, runs = 0.2, WORLDS["radius 1, two classes"], 1_000
    selections, counts = _drawn(shares, runs, seed=12)
    certify = cache(lambda selection, votes: certify_anytime(selection, votes, SMALL, alpha, bound, MOST).radius)
    errors = 0
    for selection, row in zip(selections, counts, strict=True):
        first_wrong = _first_wrong(SMALL, _lead(shares, selection.leader(), bound))
        radii = (certify(selection, _tally(votes)) for votes in row[:150])
        errors += any(radius is not None and radius >= first_wrong for radius in radii)
    assert acceptable(errors, runs, alpha)
    assert errors > runs * alpha / 3, "the simulation hardly ever errs: it could not have found a wrong certificate"


@pytest.mark.parametrize("bound", ANYTIME_NAMES)
def test_bounds_for_a_fixed_number_of_votes_do_not_survive_that_adversary(bound: str) -> None:
    """The same adversary, looking at a few moments only, breaks Clopper-Pearson bounds: the simulation can find errors.

    Where he says so, the package's own method for a fixed number of votes is asked.
    """
    alpha, shares, runs, errors = 0.05, WORLDS["radius 1, two classes"], 1_000, 0
    selections, counts = _drawn(shares, runs, seed=13)
    moments = np.unique(np.geomspace(20, MOST, 30).astype(int)) - 1
    for selection, row in zip(selections, counts[:, moments], strict=True):
        label = selection.leader()
        first_wrong = _first_wrong(SMALL, _lead(shares, label, bound))
        assert first_wrong is not None
        leader, rival, _ = _against(row.astype(np.int64), label, bound)
        total, level = row.sum(axis=1), alpha if bound == "one-sided" else alpha / 2
        lower = np.where(leader > 0, betaincinv(np.maximum(leader, 1), total - leader + 1, level), 0.0)
        upper = np.where(rival < total, betaincinv(rival + 1, np.maximum(total - rival, 1), 1 - level), 1.0)
        lead = 2 * lower - 1 if bound == "one-sided" else lower - upper
        wrong = np.flatnonzero(lead > float(gap_at(SMALL, first_wrong)) + 1e-9)
        if len(wrong):
            radius = CERTIFICATES[bound].certify(selection, _tally(row[wrong[0]]), SMALL, alpha).radius
            assert radius is not None
            assert radius >= first_wrong
            errors += 1
    assert not acceptable(errors, runs, alpha)


def _exact_radius(selection: Tally, votes: Tally, scheme: Scheme, alpha: float, bound: str, most: int) -> int | None:
    """Every radius tried, with the wealth multiplied out in fractions and the rival found by going through them all."""
    level, label = corrected_alpha(alpha, scheme, most), selection.votes.index(max(selection.votes))
    s = Fraction(stakes_of(Counts.of(selection), bound, most, level)[0], STAKES)
    total, leader = sum(votes.votes) + votes.invalid, votes.votes[label]
    others = [votes.votes[c] for c in range(len(votes.votes)) if c != label]
    rival = total - leader if bound == "one-sided" else max(others) + votes.invalid
    proved = [
        (1 + s * (1 - gap)) ** leader * (1 - s * (1 + gap)) ** rival * (1 - s * gap) ** (total - leader - rival)
        >= 1 / level
        for gap in (2 * Fraction(delta, 1 << 128) for delta in scheme.deltas[:-1])
    ]
    assert proved == sorted(proved, reverse=True)
    return sum(proved) - 1 if any(proved) else None


@pytest.mark.parametrize("bound", ANYTIME_NAMES)
@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_the_radius_is_the_largest_at_which_the_exact_wealth_reaches_one_over_alpha(scheme: Scheme, bound: str) -> None:
    chance, found = np.random.default_rng(3), set()
    for _ in range(60):
        shares = chance.dirichlet([4, 1, 0.5, 0.05])
        selection, votes = (_tally(chance.multinomial(n, shares)) for n in (9, int(chance.integers(1, 200))))
        alpha, most = float(chance.choice([0.001, 0.05, 0.4])), int(chance.integers(200, 2_000))
        radius = certify_anytime(selection, votes, scheme, alpha, bound, most).radius
        assert radius == _exact_radius(selection, votes, scheme, alpha, bound, most)
        found.add(radius)
    assert None in found
    assert len(found) > 1


@pytest.mark.parametrize("bound", ANYTIME_NAMES)
@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_the_radii_of_unanimous_votes_go_from_none_to_the_largest(scheme: Scheme, bound: str) -> None:
    largest = len(scheme.deltas) - 2
    radii = [
        certify_anytime(Tally((50, 0)), Tally((votes, 0)), scheme, 0.05, bound, 50_000).radius
        for votes in (0, 1, 3, 10, 30, 100, 1_000, 50_000)
    ]
    assert radii[0] is None
    assert radii[-1] == largest
    assert all((-1 if a is None else a) <= (-1 if b is None else b) for a, b in pairwise(radii))


@pytest.mark.parametrize("bound", ANYTIME_NAMES)
def test_more_votes_for_the_leader_never_lower_the_radius(bound: str) -> None:
    scheme, selection = Uniform(784, 45), Tally((80, 15, 5))
    for votes in (
        [Tally((leader, 1_000 - leader, 0)) for leader in range(0, 1_001, 10)],
        [Tally((leader, 150, 1_000 - 150 - leader)) for leader in range(0, 851, 10)],
        [Tally((leader, 40, 30), invalid=5) for leader in range(0, 2_000, 20)],
    ):
        radii = [certify_anytime(selection, tally, scheme, 0.05, bound, 5_000).radius for tally in votes]
        numbers = [-1 if radius is None else radius for radius in radii]
        assert numbers == sorted(numbers)
        assert len(set(numbers)) > 4


@pytest.mark.parametrize("bound", ANYTIME_NAMES)
def test_invalid_votes_count_against_the_leader_as_the_rivals_would(bound: str) -> None:
    def radius(votes: Tally) -> int | None:
        return certify_anytime(Tally((50, 5, 5)), votes, Uniform(784, 45), 0.05, bound, 5_000).radius

    assert radius(Tally((800, 100, 100))) == radius(Tally((800, 100, 100, 0)))
    assert radius(Tally((800, 100, 0), invalid=100)) == radius(Tally((800, 200, 0)))
    assert (radius(Tally((800, 100, 0), invalid=100)) == radius(Tally((800, 100, 100)))) == (bound == "one-sided")
    assert radius(Tally((0, 0, 0), invalid=1_000)) is None
    assert radius(Tally((500, 0, 0), invalid=500)) is None


def test_invalid_selection_votes_change_the_stake_and_never_the_class() -> None:
    votes = Tally((900, 50, 50))
    for selection in (Tally((50, 5, 5)), Tally((50, 5, 5), invalid=900), Tally((1, 0, 0)), Tally((1, 0, 0), invalid=9)):
        certificate = certify_anytime(selection, votes, Uniform(784, 45), 0.05, "two-sided", 5_000)
        assert certificate.interval.label == 0
        assert certificate.radius is not None
    nobody = certify_anytime(Tally((0, 0, 0), invalid=9), votes, Uniform(784, 45), 0.05, "two-sided", 5_000)
    assert nobody.interval.label == 0  # the lowest class, and a good one by chance: nothing rests on the choice


@pytest.mark.parametrize("bound", ANYTIME_NAMES)
def test_votes_in_proportion_to_the_probabilities_never_say_more_than_these_allow(bound: str) -> None:
    """And, with very many of them, say as much, unless the lead is too close to a threshold for the smallest stake."""
    scheme, chance, attained = Uniform(784, 45), np.random.default_rng(5), 0
    for _ in range(150):
        leader, *rest = chance.multinomial(1_000, [0.6, *chance.dirichlet([1, 1]) * 0.4]).tolist()
        p = [Fraction(votes, 1_000) for votes in (leader, *rest)]
        interval = Interval(0, p[0], max(p[1:]) if bound == "two-sided" else 1 - p[0])
        truly = corollary_2(interval, scheme) if bound == "two-sided" else corollary_1(interval, scheme)
        beyond = p[0] - interval.p_upper - gap_at(scheme, truly) if truly is not None else Fraction(0)
        for times in (1, 100, 10**6):
            votes = Tally((leader * times, *(v * times for v in rest)))
            radius = certify_anytime(Tally((leader, *rest)), votes, scheme, 0.05, bound, votes.total).radius
            assert (-1 if radius is None else radius) <= (-1 if truly is None else truly)
        if truly is not None and beyond > Fraction(1, 500):
            assert radius == truly
            attained += 1
    assert attained > 50


@pytest.mark.parametrize("bound", ANYTIME_NAMES)
def test_a_tie_is_never_certified(bound: str) -> None:
    for votes in (1, 10, 1_000, 10**7):
        for tally in (Tally((votes, votes)), Tally((votes, votes, 0)), Tally((votes, 0, 0), invalid=votes)):
            for selection in (Tally((9, 1, 0)[: len(tally.votes)]), Tally((1, 1, 0)[: len(tally.votes)])):
                certificate = certify_anytime(selection, tally, Uniform(784, 45), 0.4, bound, tally.total)
                assert certificate.radius is None
                assert certificate.label is None


def test_a_class_that_lost_after_its_selection_is_not_certified() -> None:
    certificate = certify_anytime(Tally((6, 5)), Tally((10, 990)), SMALL, 0.05, "two-sided", 5_000)
    assert certificate.interval.label == 0
    assert certificate.radius is None


@pytest.mark.parametrize("bound", ANYTIME_NAMES)
def test_the_lead_proved_is_the_one_the_radius_needs(bound: str) -> None:
    """A lead larger than the one stated, by however little, has this radius by Corollary 2, and the stated one less."""
    scheme, seen = Uniform(784, 45), set()
    for leader in range(500, 1_001, 20):
        votes = Tally((leader, 1_000 - leader))
        certificate = certify_anytime(Tally((9, 1)), votes, scheme, 0.05, bound, 5_000)
        interval: Any = certificate.interval
        if certificate.radius is None:
            assert interval.lead == -1
            continue
        assert largest_rho(scheme, (interval.lead + Fraction(1, 1 << 200)) / 2) == certificate.radius
        assert largest_rho(scheme, interval.lead / 2) == (certificate.radius - 1 if certificate.radius else None)
        seen.add(certificate.radius)
    assert len(seen) > 5


def test_a_level_whose_inverse_no_float_holds_can_be_asked_for() -> None:
    votes = Tally((10_000, 0))
    assert certify_anytime(Tally((9, 0)), votes, Uniform(9, 9), 5e-324, "two-sided", 20_000).radius == 0
    assert certify_anytime(Tally((9, 0)), Tally((100, 0)), Uniform(9, 9), 5e-324, "two-sided", 20_000).radius is None


def test_the_most_votes_there_could_have_been_are_paid_for() -> None:
    """alpha is corrected for the non-uniformity of all masks, wherever the votes were stopped."""
    scheme = Uniform(784, 45)
    alpha, most = float(1_000 * scheme.nonuniformity), 10_000
    assert certify_anytime(Tally((9, 0)), Tally((500, 0)), scheme, alpha, "two-sided", 900).radius is not None
    with pytest.raises(ValueError, match="too small"):
        certify_anytime(Tally((9, 0)), Tally((500, 0)), scheme, alpha, "two-sided", most)
