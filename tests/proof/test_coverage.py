"""How often what is said with probability 1 - alpha is wrong: exact sums over every outcome there is, no simulation.

The worlds are rational, the votes few, so that the probability of an error is a fraction, and is compared with alpha as
one. Simulations with many votes are in `tests/bounds/test_coverage.py` and `tests/certificates/test_stopped.py`.
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from functools import cache

import pytest

from sparsecert.bounds import corrected_alpha, predicted
from sparsecert.certificates import CERTIFICATES
from sparsecert.schemes import Uniform
from tests.proof import slow
from tests.proof.everything import MOST, STATISTICAL, Statistical, ranked, tally

SCHEME = Uniform(12, 2)
DELTAS = [slow.share_met(slow.uniform_masks(12, 2), rho) for rho in range(13)]
LEVELS = Fraction(1, 20), Fraction(1, 4)

# Shares of three classes and of the invalid copies: near ties, a lead just at a threshold, a clear one, invalid ones.
WORLDS = [
    tuple(Fraction(part, sum(parts)) for part in parts)
    for parts in [(1, 1, 1, 0), (11, 10, 9, 0), (7, 5, 0, 0), (2, 1, 0, 0), (9, 1, 1, 0), (6, 2, 1, 1), (1, 0, 0, 0)]
]


def _margins(shares: slow.Votes, label: int, certificate: Statistical) -> list[Fraction]:
    """What delta has to be below for the theorem to hold of the true shares, by each way that there is.

    An invalid copy may stand for any class, so its share is every rival's.
    """
    own, invalid = shares[label], shares[-1]
    others = sorted((share for other, share in enumerate(shares[:-1]) if other != label), reverse=True)
    if "one-sided" in certificate.name:
        return [own - Fraction(1, 2)]
    if "pairwise" in certificate.name:
        return [1 - others[0] - invalid - Fraction(1, 2)]
    k = certificate.k
    if k > len(others):
        return [Fraction(2)]
    together = (k * own - sum(others[:k]) - invalid) / Fraction(k + 1)
    return [together, (own - others[k - 1] - invalid) / Fraction(2)]


def _true(shares: slow.Votes, label: int, certificate: Statistical) -> int:
    found = [slow.largest(DELTAS, margin) for margin in _margins(shares, label, certificate)]
    return max(-1 if radius is None else radius for radius in found)


@cache
def _outcomes(shares: slow.Votes, votes: int) -> list[tuple[slow.Votes, Fraction]]:
    both = [(one, slow.chance_of(one, shares)) for one in slow.multinomials(votes, len(shares))]  # type: ignore[arg-type]
    assert sum(chance for _, chance in both) == 1
    return [(one, chance) for one, chance in both if chance]


@pytest.mark.parametrize("world", WORLDS, ids=lambda shares: " ".join(map(str, shares)))
@pytest.mark.parametrize("name", CERTIFICATES)
def test_every_interval_covers(name: str, world: slow.Votes) -> None:
    for votes, level in ((4, LEVELS[0]), (13, LEVELS[0]), (13, LEVELS[1])):
        for label in range(3):
            selection = tally(tuple(int(other == label) for other in range(4)))
            rival = max(share for other, share in enumerate(world[:-1]) if other != label) + world[-1]
            own = 1 - rival if name == "pairwise" else world[label]
            missed = Fraction(0)
            for outcome, chance in _outcomes(world, votes):
                found = CERTIFICATES[name].bound(selection, ranked(name, tally(outcome), label), level)
                missed += chance * (found.p_lower > own or found.p_upper < rival)
            assert missed <= level


@pytest.mark.parametrize("world", WORLDS, ids=lambda shares: " ".join(map(str, shares)))
@pytest.mark.parametrize("certificate", [one for one in STATISTICAL if one.draws is None], ids=str)
def test_every_radius_is_true_often_enough(certificate: Statistical, world: slow.Votes) -> None:
    for votes, alpha in ((15, LEVELS[0]), (15, LEVELS[1])):
        for chosen in range(3):
            selection = tally(tuple(3 * (other == chosen) for other in range(4)))
            wrong = Fraction(0)
            for outcome, chance in _outcomes(world, votes):
                label, radius = certificate.certify(selection, tally(outcome), SCHEME, alpha)
                assert label == chosen
                wrong += chance * ((-1 if radius is None else radius) > _true(world, label, certificate))
            assert wrong <= alpha


@pytest.mark.parametrize("world", WORLDS, ids=lambda shares: " ".join(map(str, shares)))
@pytest.mark.parametrize("certificate", [one for one in STATISTICAL if one.draws], ids=str)
def test_no_moment_to_stop_at_makes_it_wrong_too_often(certificate: Statistical, world: slow.Votes) -> None:
    """Every sequence of votes, looked at after each: the probability that any look is wrong."""
    alpha, most = LEVELS[1], 16
    assert most <= MOST
    for chosen in range(2):
        selection = tally(tuple(3 * (other == chosen) for other in range(4)))
        true = _true(world, chosen, certificate)
        right, wrong = {(0, 0, 0, 0): Fraction(1)}, Fraction(0)
        for _ in range(most):
            after: dict[slow.Votes, Fraction] = defaultdict(Fraction)
            for votes, chance in right.items():
                for place, share in enumerate(world):
                    after[(*votes[:place], votes[place] + 1, *votes[place + 1 :])] += chance * share
            right = {}
            for votes, chance in after.items():
                radius = certificate.certify(selection, tally(votes), SCHEME, alpha)[1]
                if (-1 if radius is None else radius) > true:
                    wrong += chance
                elif chance:
                    right[votes] = chance
        assert wrong + sum(right.values()) == 1
        assert wrong <= alpha


@pytest.mark.parametrize("world", WORLDS, ids=lambda shares: " ".join(map(str, shares)))
def test_predictions_are_seldom_wrong(world: slow.Votes) -> None:
    """Wrong: any class but the single most likely one, with the invalid copies taken to be any rival's."""
    best = [label for label in range(3) if world[label] >= max(world[:-1])]
    rival = max(share for label, share in enumerate(world[:-1]) if label != best[0]) + world[-1]
    right = best[0] if len(best) == 1 and world[best[0]] > rival else None
    for level in LEVELS:
        wrong = Fraction(0)
        for outcome, chance in _outcomes(world, 15):
            answer = predicted(tally(outcome), level)
            wrong += chance * (answer is not None and answer != right)
        assert wrong <= level


def test_the_sums_would_notice_a_bound_that_is_too_bold() -> None:
    """At three times the level that is asked for, some interval misses more often than the level allows."""
    level = Fraction(1, 20)
    for name in CERTIFICATES:
        missed = []
        for share in range(1, 20):
            world = (Fraction(share, 20), 1 - Fraction(share, 20), Fraction(0))
            selection = tally((1, 0, 0))
            bold = Fraction(0)
            for outcome, chance in _outcomes(world, 13):  # type: ignore[arg-type]
                found = CERTIFICATES[name].bound(selection, ranked(name, tally(outcome), 0), 3 * level)
                bold += chance * (found.p_lower > world[0] or found.p_upper < world[1])
            missed.append(bold)
        assert max(missed) > level
    assert corrected_alpha(level, SCHEME, 13) <= level
