"""Elections by fixed sets of masks against `slow.py`: every pair of classes by itself, every place by itself."""

from __future__ import annotations

import random

import numpy as np
import pytest

from sparsecert.certificates.damage import AlteredUnits
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


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("attacker", ATTACKERS, ids=str)
@pytest.mark.parametrize("one", FIXED, ids=str)
def test_radii_of_elections(one: Listed, attacker: Attacker, rule: str) -> None:
    """Also with the classes numbered otherwise, which changes whom ties favour and nothing else."""
    assert isinstance(one.scheme, FixedMasks)
    damage = attacker.damage(one.scheme)
    if damage is None:
        return
    attack, chance = attacker.slowly(one.scheme, one.masks), random.Random(str(one))
    for _ in range(6 if attacker.tight else 40):
        classes = chance.choice([2, 3, 4, 5])
        ranks, order = _some_ranks(chance, len(one.masks), classes), chance.sample(range(classes), classes)
        label, radius = slow.RULES[rule](ranks, attack, order)
        found = elected(rule, [tuple(rank[c] for c in order) for rank in ranks], damage)
        assert order[found[0]] == label
        assert found[1] == radius or (attacker.tight and found[1] > radius)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("masks", [5, 9])
def test_elections_of_many_disjoint_masks(masks: int, rule: str) -> None:
    """A unit each: what they cost together is what the most expensive ones cost."""
    table = np.eye(masks, dtype=bool)
    attack = slow.unit_attack([tuple(row) for row in table.tolist()], charged=True)  # the same here, and quicker
    chance, damage, seen = random.Random(masks), AlteredUnits(table), set()
    for _ in range(120):
        ranks = _some_ranks(chance, masks, chance.choice([3, 4, 5, 6]))
        expected = slow.RULES[rule](ranks, attack, range(len(ranks[0])))
        assert elected(rule, ranks, damage) == expected
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
        assert elected(rule, ranks, AlteredUnits(table)) == expected
        seen.add(expected[1])
    assert {0, 1, 2} <= seen
