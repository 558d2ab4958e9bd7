"""Elections by fixed sets of masks against `slow.py`: every pair of classes by itself, every place by itself."""

from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt
import pytest

from sparsecert.certificates.adversary import PerturbedUnits
from sparsecert.certificates.plurality import count_labels
from sparsecert.certificates.run_off import _RoundOne
from sparsecert.schemes import FixedMasks
from tests.proof import slow
from tests.proof.everything import ATTACKERS, FIXED, RULES, Attacker, Listed, elected


def _some_ranks(chance: random.Random, masks: int, classes: int) -> list[slow.Rank]:
    """Rankings that lean to one class and another; now and then a copy has no opinion."""
    one, other, sure = chance.randrange(classes), chance.randrange(classes), chance.choice([0.0, 0.3, 0.6, 0.9])
    ranks = []
    for _ in range(masks):
        order = chance.sample(range(classes), classes)
        if chance.random() < sure:
            order = [label := chance.choice([one, one, other]), *(c for c in order if c != label)]
        ranks.append((0,) * classes if chance.random() < 0.1 else tuple(order.index(c) for c in range(classes)))
    return ranks


@pytest.mark.parametrize("attacker", [one for one in ATTACKERS if not one.tight], ids=str)
@pytest.mark.parametrize("one", FIXED, ids=str)
def test_damage_within_a_budget(one: Listed, attacker: Attacker) -> None:
    """For one set of costs and for arrays of them; below 0 nothing is within."""
    assert isinstance(one.scheme, FixedMasks)
    adversary, chance = attacker.adversary(one.scheme), np.random.default_rng(0)
    if adversary is None:
        return
    attack = attacker.slowly(one.scheme, one.masks)
    for shape in ((), (3,), (1,), (2, 3), (4, 1, 2), (20,)):
        costs = chance.integers(0, 4, (*shape, len(one.masks)))
        budgets = np.zeros(shape, dtype=np.int64)
        for place in np.ndindex(shape):  # what some attack does, or one less
            budgets[place] = chance.choice(attack.damages(costs[place].tolist())) - chance.integers(2)
        found = np.asarray(adversary.radii(costs, budgets))
        assert found.shape == shape
        for place in np.ndindex(shape):
            assert found[place] == attack.radius(costs[place].tolist(), int(budgets[place]))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("attacker", ATTACKERS, ids=str)
@pytest.mark.parametrize("one", FIXED, ids=str)
def test_radii_of_elections(one: Listed, attacker: Attacker, rule: str) -> None:
    """Also with the classes numbered otherwise, which changes whom ties favour and nothing else."""
    assert isinstance(one.scheme, FixedMasks)
    adversary = attacker.adversary(one.scheme)
    if adversary is None:
        return
    attack, chance = attacker.slowly(one.scheme, one.masks), random.Random(str(one))
    for _ in range(6 if attacker.tight else 40):
        classes = chance.choice([2, 3, 4, 5])
        ranks, order = _some_ranks(chance, len(one.masks), classes), chance.sample(range(classes), classes)
        label, radius = slow.RULES[rule](ranks, attack, order)
        found = elected(rule, [tuple(rank[c] for c in order) for rank in ranks], adversary)
        assert order[found[0]] == label
        assert found[1] == radius or (attacker.tight and found[1] > radius)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("masks", [5, 9])
def test_elections_of_many_disjoint_masks(masks: int, rule: str) -> None:
    """A unit each: what they cost together is what the most expensive ones cost."""
    table = np.eye(masks, dtype=bool)
    attack = slow.unit_attack([tuple(row) for row in table.tolist()], charged=True)  # the same here, and quicker
    chance, adversary, seen = random.Random(masks), PerturbedUnits(table), set()
    for _ in range(120):
        ranks = _some_ranks(chance, masks, chance.choice([3, 4, 5, 6]))
        expected = slow.RULES[rule](ranks, attack, range(len(ranks[0])))
        assert elected(rule, ranks, adversary) == expected
        seen.add(expected[1])
    assert {0, 1, 2} <= seen


@pytest.mark.parametrize("rule", RULES)
def test_elections_of_masks_that_overlap(rule: str) -> None:
    """Each unit in up to three of the masks, in none now and then; what is charged is the bound that is stated."""
    chance, seen = random.Random(7), set()
    for _ in range(150):
        masks, units = chance.choice([6, 9, 14]), chance.choice([4, 8, 12])
        table = np.zeros((masks, units), dtype=bool)
        for unit in range(units):
            table[chance.sample(range(masks), chance.choice([0, 1, 1, 2, 2, 3])), unit] = True
        table[0, 0] = table[1, 0] = True
        ranks = _some_ranks(chance, masks, chance.choice([2, 3, 4, 5]))
        attack = slow.unit_attack([tuple(row) for row in table.tolist()], charged=True)
        expected = slow.RULES[rule](ranks, attack, range(len(ranks[0])))
        assert elected(rule, ranks, PerturbedUnits(table)) == expected
        seen.add(expected[1])
    assert {0, 1, 2} <= seen


def test_two_rivals_that_pass_the_label_together() -> None:
    """Of any label, winner or not, and of masks that overlap: the sum of both leads."""
    chance, seen = random.Random(8), set()
    for _ in range(200):
        masks, classes = chance.choice([5, 9]), chance.choice([3, 4, 5])
        table = np.zeros((masks, 8), dtype=bool)
        for unit in range(8):
            table[chance.sample(range(masks), chance.choice([1, 1, 2, 3])), unit] = True
        ranks = _some_ranks(chance, masks, classes)
        labels = np.array([classes if (first := slow.first_choice(rank)) is None else first for rank in ranks])
        label, *pair = chance.sample(range(classes), 3)
        counts = count_labels(labels, classes)
        needs = sum(int(counts[label] - counts[rival]) + (rival > label) for rival in pair)
        costs = [{label: 3, pair[0]: 0, pair[1]: 0}.get(int(first), 1) for first in labels]
        expected = slow.unit_attack([tuple(row) for row in table.tolist()], charged=_overlap(table)).radius(
            costs, needs - 1
        )
        round_one = _RoundOne(labels[None], counts[None], np.array([label]), PerturbedUnits(table))
        ones, others = np.array([pair, pair[::-1]])
        assert round_one.both_overtake(np.zeros(2, dtype=np.int64), ones, others).tolist() == [expected] * 2
        seen.add(expected)
    assert {-1, 0, 1, 2} <= seen


def _overlap(table: npt.NDArray[np.bool_]) -> bool:
    return bool((table.sum(axis=0) > 1).any())
