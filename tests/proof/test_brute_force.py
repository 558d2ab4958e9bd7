"""Every change of tiny inputs, for everything in the list: no answer that is certified is ever another one.

The base classifiers are tables drawn at random: for each mask and each thing that its units may show, a ranking of the
classes. Nothing about them is smooth, so that nothing but the masks can make a certificate hold. Probabilities are
exact: all masks of a scheme are asked.
"""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import permutations, product

import pytest

from sparsecert.bounds import Interval
from sparsecert.certificates import corollary_1, corollary_2, lead, majority
from sparsecert.certificates.random_values import needed
from sparsecert.certificates.top_k import Rivals, top_k_radius
from sparsecert.schemes import FixedMasks, RandomValues
from tests.proof import slow
from tests.proof.everything import ATTACKERS, FIXED, NOISES, RULES, TINY, Attacker, Listed, elected

CLASSES = 3
Input = tuple[int, ...]


def _table(one: Listed, seed: int) -> dict[Input, list[slow.Rank]]:
    """For each input of zeros and ones, how its copies rank the classes."""
    chance, reported = random.Random(seed), dict[tuple[int, Input], slow.Rank]()
    orders, usual = [*permutations(range(CLASSES)), (0,) * CLASSES], chance.randrange(6)
    sure = chance.choice([0.5, 0.8, 0.95])

    def rank(mask: int, shown: Input) -> slow.Rank:
        if (mask, shown) not in reported:
            reported[mask, shown] = orders[usual if chance.random() < sure else chance.randrange(7)]
        return reported[mask, shown]

    return {
        x: [rank(place, tuple(v for v, kept in zip(x, mask, strict=True) if kept))
            for place, mask in enumerate(one.masks)]
        for x in product((0, 1), repeat=one.scheme.units)
    }  # fmt: skip


def _apart(x: Input, y: Input) -> int:
    return sum(a != b for a, b in zip(x, y, strict=True))


def _shares(ranks: list[slow.Rank]) -> list[Fraction]:
    votes = [slow.first_choice(rank) for rank in ranks]
    return [Fraction(votes.count(label), len(votes)) for label in range(CLASSES)]


@pytest.mark.parametrize("one", TINY, ids=str)
def test_no_perturbation_within_the_radius_changes_the_likeliest_class(one: Listed) -> None:
    """By both corollaries, and of the k leading classes by both ways to bound the rivals."""
    for seed in range(5):
        shares = {x: _shares(ranks) for x, ranks in _table(one, seed).items()}
        for x in [*shares][:: max(1, len(shares) // 12)]:
            p = shares[x]
            for label in range(CLASSES):
                others = sorted((share for other, share in enumerate(p) if other != label), reverse=True)
                found = {
                    1: [
                        corollary_1(Interval(label, p[label], 1 - p[label]), one.scheme),
                        corollary_2(Interval(label, p[label], others[0]), one.scheme),
                        top_k_radius(p[label], Rivals(1, others[0]), one.scheme),
                    ],
                    2: [
                        top_k_radius(p[label], Rivals(2, sum(others)), one.scheme),
                        top_k_radius(p[label], Rivals(1, others[1]), one.scheme),
                    ],
                }
                for k, radii in found.items():
                    radius = max(-1 if each is None else each for each in radii)
                    for y, q in shares.items():
                        if _apart(x, y) <= radius:
                            as_likely = sum(q[other] >= q[label] for other in range(CLASSES) if other != label)
                            assert as_likely < k


@pytest.mark.parametrize("one", TINY, ids=str)
def test_no_class_becomes_more_or_less_likely_than_theorem_1_says(one: Listed) -> None:
    deltas = [one.scheme.delta(rho) for rho in range(one.scheme.units + 1)]
    shares = {x: _shares(ranks) for x, ranks in _table(one, 11).items()}
    for x in [*shares][:: max(1, len(shares) // 8)]:
        for y, q in shares.items():
            assert all(abs(a - b) <= deltas[_apart(x, y)] for a, b in zip(shares[x], q, strict=True))


def in_a_patch(x: Input, y: Input, width: int, side: int) -> bool:
    """Whether a square of that side covers all that differs."""
    places = [divmod(place, width) for place, (a, b) in enumerate(zip(x, y, strict=True)) if a != b]
    if not places:
        return True
    rows, columns = zip(*places, strict=True)
    return max(max(rows) - min(rows), max(columns) - min(columns)) < side


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("attacker", ATTACKERS, ids=str)
@pytest.mark.parametrize("one", FIXED, ids=str)
def test_no_perturbation_within_the_radius_changes_an_election(one: Listed, attacker: Attacker, rule: str) -> None:
    assert isinstance(one.scheme, FixedMasks)
    adversary = attacker.adversary(one.scheme)
    if adversary is None:
        return
    for seed in range(2 if attacker.tight else 4):
        table = _table(one, seed)
        winners = {x: slow.WINNERS[rule](ranks, range(CLASSES)) for x, ranks in table.items()}
        for x in [*table][:: max(1, len(table) // (4 if attacker.tight else 10))]:
            label, radius = elected(rule, table[x], adversary)
            assert label == winners[x]
            for y, winner in winners.items():
                if attacker.name == "patch":
                    reached = in_a_patch(x, y, one.scheme.width, radius)  # type: ignore[attr-defined]
                else:
                    reached = _apart(x, y) <= radius
                assert winner == label or not reached


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("one", [one for one in FIXED if len(one.masks) <= 4], ids=str)
def test_nothing_that_the_masks_met_may_say_changes_an_election(one: Listed, rule: str) -> None:
    """Every way to vote, not only those of one classifier; of a plurality without overlaps, one more unit suffices."""
    assert isinstance(one.scheme, FixedMasks)
    chance, orders = random.Random(3), [*permutations(range(CLASSES)), (0,) * CLASSES]
    exact = [attacker for attacker in ATTACKERS if attacker.adversary(one.scheme) is not None]
    for _ in range(6):
        usual = chance.choice(orders)
        ranks = [usual if chance.random() < 0.7 else chance.choice(orders) for _ in one.masks]
        for attacker in exact:
            adversary, attack = attacker.adversary(one.scheme), slow.unit_attack(one.masks, charged=False)
            assert adversary is not None
            if attacker.name == "patch":
                attack = attacker.slowly(one.scheme, one.masks)
            _, radius = elected(rule, ranks, adversary)
            for met in {*attack.met[radius]}:
                assert slow.survives(rule, ranks, met, orders)
            if rule == "plurality" and attacker.name == "patch" and radius + 1 < len(attack.met):
                assert not all(slow.survives(rule, ranks, met, orders) for met in {*attack.met[radius + 1]})


@pytest.mark.parametrize("noise", [one for one in NOISES if one.values <= 3], ids=str)
def test_no_classifier_of_random_copies_falls_below_half(noise: RandomValues) -> None:
    """Every classifier of two units into two classes, as a set of copies: 2**4, or 2**9."""
    copies = [*product(range(noise.values), repeat=2)]
    of = _chances(noise, copies)
    least = [needed(noise, rho) for rho in range(3)]
    for chosen in product((False, True), repeat=len(copies)):
        p = {x: sum((c for c, inside in zip(of[x], chosen, strict=True) if inside), Fraction(0)) for x in copies}
        for y in copies:
            rho = _apart(copies[0], y)
            assert p[copies[0]] <= least[rho] or p[y] > Fraction(1, 2)


def _chances(noise: RandomValues, copies: list[Input]) -> dict[Input, list[Fraction]]:
    """How likely each copy is, by the input of two units that it is made of."""

    def likely(copy: Input, x: Input) -> Fraction:
        chances = [noise.kappa if a == b else noise.beta for a, b in zip(copy, x, strict=True)]
        return chances[0] * chances[1]

    return {x: [likely(copy, x) for copy in copies] for x in copies}


@pytest.mark.parametrize("noise", [one for one in NOISES if one.values <= 3], ids=str)
def test_no_perturbation_within_the_radius_changes_the_likeliest_class_of_random_copies(noise: RandomValues) -> None:
    """Every classifier of two units of two values into three classes; of three values, some drawn at random.

    By both theorems, from the true probabilities. That one more unit sometimes does change the class shows that these
    classifiers are near enough to a tie for a radius that is one too large to be seen.
    """
    copies = [*product(range(noise.values), repeat=2)]
    of, chance, changed = _chances(noise, copies), random.Random(5), set[tuple[int, int]]()
    some = [tuple(chance.choices(range(CLASSES), k=len(copies))) for _ in range(400)]
    for labels in product(range(CLASSES), repeat=len(copies)) if noise.values == 2 else some:
        p = {x: [Fraction(0)] * CLASSES for x in copies}
        for x in copies:
            for label, likely in zip(labels, of[x], strict=True):
                p[x][label] += likely
        second, first = sorted(p[copies[0]])[-2:]
        best = p[copies[0]].index(first)
        for theorem in (majority, lead):
            radius = theorem(Interval(best, first, second), noise)
            for y in copies:
                if any(p[y][other] >= p[y][best] for other in range(CLASSES) if other != best):
                    changed.add((_apart(copies[0], y), -1 if radius is None else radius))
    assert all(rho > radius for rho, radius in changed)
    assert (1, 0) in changed
