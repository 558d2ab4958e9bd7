"""What a change of the question may do to the answer, for everything in the list; each claim in the form in which it
is true.

- A vote that goes from the leader to another class, or to nobody, never enlarges a radius. Of elections that is said of
  the plurality of masks that do not overlap, while the winner stays the winner. It is not true of a run-off, where it
  can help a leader to lose first choices to a class that pushes the stronger rival out; nor where masks overlap and the
  damage is bounded by charging a mask for each perturbed unit, since the bound falls further than the lead.
- A smaller alpha never enlarges a radius. A stopped certificate chooses its stake by alpha, so of it this is said for a
  given stake.
- The same shares of fewer votes never give a larger radius; of elections, the same shares of fewer masks.
- Classes numbered otherwise: the same class with the same radius, if the leader of the selection is the only one with
  so many votes. What ties do to elections is in `test_agreement_elections.py`.
- Units or masks in another order: the same radii.
- Two-sided at alpha is at least one-sided at alpha / 2, to which it pays the same; it is at least one-sided at the same
  stake, where the votes were stopped.
"""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from sparsecert.bounds import Interval, one_sided, two_sided
from sparsecert.bounds.betting import is_proved
from sparsecert.certificates import corollary_1, corollary_2
from sparsecert.certificates.adversary import PerturbedUnits
from sparsecert.certificates.enumerated import EnumeratedUnits
from sparsecert.certificates.patches import PerturbedPatch
from sparsecert.certificates.random_values import lead, majority
from sparsecert.schemes import FixedMasks, Lattice, Partition, RandomValues, Scheme, Uniform
from tests.helpers import one_plurality
from tests.proof import slow
from tests.proof.everything import FIXED, NOISES, RULES, STATISTICAL, Listed, Statistical, elected, tally

WIDE: list[Scheme] = [Uniform(60, 3), Partition(60, 30, 2), Lattice(6, 6, 18)]
ALPHA = Fraction(1, 20)


def _number(radius: int | None) -> int:
    return -1 if radius is None else radius


def _votes(chance: random.Random, total: int, sure: float) -> slow.Votes:
    weights = [sure, *(chance.random() * (1 - sure) for _ in range(3)), chance.choice([0.0, 0.02])]
    drawn = chance.choices(range(5), weights, k=total)
    return tuple(drawn.count(label) for label in range(5))


def _selection(chance: random.Random) -> slow.Votes:
    """Of class 0, clearly."""
    return 20, *(chance.randrange(6) for _ in range(3)), 0


@pytest.mark.parametrize("certificate", STATISTICAL, ids=str)
@pytest.mark.parametrize("scheme", WIDE, ids=str)
def test_a_vote_lost_by_the_leader_never_helps(certificate: Statistical, scheme: Scheme) -> None:
    chance, seen = random.Random(1), set()
    for sure in (0.5, 0.7, 0.9, 0.99):
        selection, votes, before = tally(_selection(chance)), _votes(chance, 150, sure), 10**9
        for _ in range(40):
            label, radius = certificate.certify(selection, tally(votes), scheme, ALPHA)
            assert label == 0
            assert _number(radius) <= before
            before = _number(radius)
            seen.add(before)
            lost, gains = chance.choice([1, 2, 3]), chance.randrange(1, 5)
            lost = min(lost, votes[0])
            votes = tuple(v - lost * (c == 0) + lost * (c == gains) for c, v in enumerate(votes))
    assert len(seen) > 2


@pytest.mark.parametrize("certificate", [one for one in STATISTICAL if one.draws is None], ids=str)
@pytest.mark.parametrize("scheme", WIDE, ids=str)
def test_a_smaller_alpha_never_helps(certificate: Statistical, scheme: Scheme) -> None:
    chance = random.Random(2)
    for sure in (0.5, 0.7, 0.9, 0.99):
        selection, votes = tally(_selection(chance)), tally(_votes(chance, 150, sure))
        levels = [Fraction(2, 5) / 2**power for power in range(0, 30, 3)]
        radii = [_number(certificate.certify(selection, votes, scheme, level)[1]) for level in levels]
        assert radii == sorted(radii, reverse=True)
        assert sure < 0.9 or radii[0] > radii[-1]


def test_a_smaller_alpha_never_helps_at_a_given_stake() -> None:
    chance, seen = random.Random(3), set()
    for _ in range(200):
        counts = (chance.randrange(200), chance.randrange(40), chance.randrange(60))
        gap, stake = Fraction(chance.randrange(100), 100), chance.randint(1, 512)
        proved = [is_proved(*counts, gap, stake, Fraction(2, 5) / 2**power) for power in range(20)]
        assert proved == sorted(proved, reverse=True)
        seen.add(sum(proved))
    assert len(seen) > 5


@pytest.mark.parametrize("certificate", STATISTICAL, ids=str)
@pytest.mark.parametrize("scheme", WIDE, ids=str)
def test_the_same_shares_of_fewer_votes_never_help(certificate: Statistical, scheme: Scheme) -> None:
    chance, seen = random.Random(4), set()
    for turn in range(24):
        selection, base = _selection(chance), _votes(chance, 12, 0.5 + turn / 50)
        radii = [
            _number(certificate.certify(tally(selection), tally(tuple(v * n for v in base)), scheme, ALPHA)[1])
            for n in (1, 2, 3, 7, 20)
        ]
        assert radii == sorted(radii)
        seen |= {*radii}
    assert len(seen) > 3


@pytest.mark.parametrize("certificate", STATISTICAL, ids=str)
def test_classes_numbered_otherwise_change_nothing(certificate: Statistical) -> None:
    chance = random.Random(5)
    for turn in range(40):
        selection, votes = _selection(chance), _votes(chance, 100, 0.5 + turn / 90)
        order = chance.sample(range(4), 4)
        one = certificate.certify(tally(selection), tally(votes), WIDE[0], ALPHA)
        moved = [tally((*(some[label] for label in order), some[-1])) for some in (selection, votes)]
        label, radius = certificate.certify(moved[0], moved[1], WIDE[0], ALPHA)
        assert (order[label], radius) == one


@pytest.mark.parametrize("scheme", WIDE, ids=str)
def test_two_sided_is_at_least_one_sided_at_half_of_alpha(scheme: Scheme) -> None:
    chance, larger = random.Random(6), 0
    for turn in range(120):
        selection, votes = tally(_selection(chance)), tally(_votes(chance, 150, 0.4 + turn / 200))
        one = _number(corollary_1(one_sided(selection, votes, ALPHA / 2), scheme))
        two = _number(corollary_2(two_sided(selection, votes, ALPHA), scheme))
        assert two >= one
        larger += two > one
    assert larger


def test_a_lead_over_the_rival_is_proved_where_one_over_all_others_is() -> None:
    chance, more = random.Random(7), 0
    for _ in range(300):
        leader, rival, others = chance.randrange(100), chance.randrange(30), chance.randrange(30)
        gap, stake = Fraction(chance.randrange(60), 100), chance.randint(1, 512)
        over_all = is_proved(leader, rival + others, 0, gap, stake, ALPHA)
        over_one = is_proved(leader, rival, others, gap, stake, ALPHA)
        assert over_one or not over_all
        more += over_one and not over_all
    assert more


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("one", FIXED, ids=str)
def test_units_and_masks_in_another_order_change_nothing(one: Listed, rule: str) -> None:
    assert isinstance(one.scheme, FixedMasks)
    chance, table = random.Random(8), one.scheme.table
    for _ in range(12):
        ranks = [tuple(chance.sample(range(3), 3)) for _ in table]
        units, masks = (chance.sample(range(size), size) for size in (table.shape[1], table.shape[0]))
        moved = [ranks[mask] for mask in masks]
        for adversary in (PerturbedUnits, EnumeratedUnits):
            assert elected(rule, moved, adversary(table[masks][:, units])) == elected(rule, ranks, adversary(table))
        if one.scheme.sides is not None:
            height, width = one.scheme.sides
            mirrored = table.reshape(-1, height, width)[:, ::-1, ::-1].reshape(table.shape)
            turned = table.reshape(-1, height, width).transpose(0, 2, 1).reshape(table.shape)
            expected = elected(rule, ranks, PerturbedPatch(table, height, width))
            assert elected(rule, ranks, PerturbedPatch(mirrored, height, width)) == expected
            assert elected(rule, ranks, PerturbedPatch(turned, width, height)) == expected


def test_a_vote_lost_by_the_winner_of_a_plurality_never_helps() -> None:
    chance, seen = random.Random(9), 0
    for _ in range(400):
        table = np.eye(chance.choice([5, 9, 14]), dtype=bool)
        labels = np.array([chance.choice([1, 1, 1, chance.randrange(4)]) for _ in table])
        before = one_plurality(labels, 3, PerturbedUnits(table))
        mine = np.flatnonzero(labels == before.label)
        labels[chance.choice(mine.tolist())] = chance.choice([c for c in range(4) if c != before.label])
        after = one_plurality(labels, 3, PerturbedUnits(table))
        assert after.label != before.label or after.radius <= before.radius
        seen += after.label == before.label and after.radius < before.radius
    assert seen


def test_the_same_shares_of_fewer_masks_never_help() -> None:
    chance = random.Random(10)
    for _ in range(100):
        labels = np.array([chance.choice([1, 1, chance.randrange(4)]) for _ in range(chance.choice([3, 5, 8]))])
        radii = [
            one_plurality(np.tile(labels, times), 3, PerturbedUnits(np.eye(len(labels) * times, dtype=bool))).radius
            for times in (1, 2, 3, 5)
        ]
        assert radii == sorted(radii)


@pytest.mark.parametrize("noise", [one for one in NOISES if one.kappa > Fraction(3, 4)], ids=str)
def test_random_values_certify_no_more_for_less(noise: RandomValues) -> None:
    for theorem in (majority, lead):
        shares = [Fraction(step, 100) for step in range(101)]
        radii = [_number(theorem(Interval(0, share, 1 - share), noise)) for share in shares]
        assert radii == sorted(radii)
        assert radii[50] == -1 < radii[51]
