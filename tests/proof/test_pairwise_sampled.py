"""The pairwise certificates: brute force over ties, scores that are not finite, and cycles of three and more classes.
Of random masks also exact coverage and predictions.

Whatever `everything.py` lists runs elsewhere with copies that have the leader second. Here copies rank the classes in
any way.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from fractions import Fraction
from functools import cache
from itertools import permutations, product

import numpy as np
import pytest
import torch

from sparsecert.bounds import Interval, one_sided, pairwise, predicted_by_pairs
from sparsecert.bounds.clopper_pearson import lower_bound
from sparsecert.bounds.pairwise import smallest_count
from sparsecert.certificates import CERTIFICATES, beats_all, certify_anytime, majority
from sparsecert.counts import Counts, Tally
from sparsecert.errors import InputError
from sparsecert.registry import RULES
from sparsecert.schemes import FixedMasks, RandomValues, Uniform
from sparsecert.votes.voter import rank
from tests.proof import slow
from tests.proof.everything import ATTACKERS, FIXED, MOST, NOISES, TINY, Attacker, Listed
from tests.proof.test_brute_force import in_a_patch

HALF, NAN = Fraction(1, 2), float("nan")
Input = tuple[int, ...]
Scores = tuple[float, ...]


def ranks_above(scores: Scores, one: int, other: int) -> bool:
    """Whether a copy with these scores ranks one class above the other."""
    if not all(math.isfinite(score) for score in scores):
        return False
    return scores[one] > scores[other] or (scores[one] == scores[other] and one < other)


def chances(copies: list[tuple[Scores, Fraction]], label: int) -> list[Fraction]:
    """Of the copies with their probabilities, how likely the label is ranked above each other class."""
    others = [other for other in range(len(copies[0][0])) if other != label]
    return [sum((p for scores, p in copies if ranks_above(scores, label, other)), Fraction(0)) for other in others]


def answer(copies: list[tuple[Scores, Fraction]]) -> int | None:
    """g: the class that beats every other one."""
    best = [label for label in range(len(copies[0][0])) if min(chances(copies, label)) > HALF]
    assert len(best) <= 1
    return best[0] if best else None


def _apart(x: Input, y: Input) -> int:
    return sum(a != b for a, b in zip(x, y, strict=True))


def _drawn(chance: random.Random, classes: int) -> Scores:
    """Scores with many ties; sometimes one that is not finite."""
    scores: list[float] = [chance.randrange(4) for _ in range(classes)]
    if chance.random() < 0.05:
        scores[chance.randrange(classes)] = chance.choice([NAN, math.inf, -math.inf])
    return tuple(scores)


def _copies(one: Listed, seed: int) -> dict[Input, list[tuple[Scores, Fraction]]]:
    """Of each input of zeros and ones, the scores of its copies, by tables drawn at random.

    Usually the scores of one of three turns of the classes, so that there are cycles.
    """
    chance, said = random.Random(seed), dict[tuple[int, Input], Scores]()
    classes, share = chance.choice([3, 4, 5]), Fraction(1, len(one.masks))
    usual = [tuple(float((label + turn) % classes) for label in range(classes)) for turn in range(3)]
    turns, sure = chance.choice([1, 1, 2, 3]), chance.choice([0.5, 0.8, 0.95])

    def scores(mask: int, shown: Input) -> Scores:
        if (mask, shown) not in said:
            drawn = chance.choice(usual[:turns]) if chance.random() < sure else _drawn(chance, classes)
            said[mask, shown] = drawn
        return said[mask, shown]

    return {
        x: [(scores(place, tuple(v for v, kept in zip(x, mask, strict=True) if kept)), share)
            for place, mask in enumerate(one.masks)]
        for x in product((0, 1), repeat=one.scheme.units)
    }  # fmt: skip


@pytest.mark.parametrize("one", TINY, ids=str)
def test_no_perturbation_within_the_radius_changes_the_class_that_beats_all(one: Listed) -> None:
    deltas = [one.scheme.delta(rho) for rho in range(one.scheme.units + 1)]
    for seed in range(6):
        copies = _copies(one, seed)
        answers = {x: answer(found) for x, found in copies.items()}
        for x in [*copies][:: max(1, len(copies) // 8)]:
            for label in range(len(copies[x][0][0])):
                q = chances(copies[x], label)
                radius = beats_all(Interval(label, min(q), 1 - min(q)), one.scheme)
                assert (radius is not None) == (answers[x] == label)
                assert radius == slow.largest(one.deltas, min(q) - HALF)
                if label == 0:
                    for y, found in copies.items():
                        changes = [abs(a - b) for a, b in zip(q, chances(found, label), strict=True)]
                        assert max(changes) <= deltas[_apart(x, y)]
                assert all(answers[y] == label for y in copies if radius is not None and _apart(x, y) <= radius)


def _beaten(copies: list[tuple[Scores, Fraction]], label: int) -> bool:
    """Whether another class beats the label."""
    others = [other for other in range(len(copies[0][0])) if other != label]
    return any(sum(p for scores, p in copies if ranks_above(scores, other, label)) > HALF for other in others)


def test_the_tables_have_cycles_ties_and_answers_that_change() -> None:
    """Otherwise the brute force above would show little."""
    seen = defaultdict(int)
    for one, seed in product(TINY, range(6)):
        copies = _copies(one, seed)
        answers = {x: answer(found) for x, found in copies.items()}
        seen["no answer"] += any(found is None for found in answers.values())
        seen["several answers"] += len({*answers.values()} - {None}) > 1
        for found in copies.values():
            classes = range(len(found[0][0]))
            seen["cycle"] += all(_beaten(found, label) for label in classes)
            seen["not finite"] += any(not all(map(math.isfinite, scores)) for scores, _ in found)
            seen["tie"] += any(len({*scores}) < len(scores) for scores, _ in found)
    assert all(seen[kind] > 10 for kind in ("no answer", "several answers", "cycle", "not finite", "tie"))


def _elected(copies: list[tuple[Scores, Fraction]]) -> int | None:
    """The class that beats every other one by a fixed set of masks, ties going to the lower class; None in a cycle."""

    def beats(one: int, other: int) -> bool:
        lead = sum(ranks_above(s, one, other) - ranks_above(s, other, one) for s, _ in copies)
        return lead > 0 or (lead == 0 and one < other)

    classes = range(len(copies[0][0]))
    best = [one for one in classes if all(beats(one, other) for other in classes if other != one)]
    assert len(best) <= 1
    return best[0] if best else None


@pytest.mark.parametrize("attacker", [one for one in ATTACKERS if not one.tight], ids=str)
@pytest.mark.parametrize("one", FIXED, ids=str)
def test_no_perturbation_within_the_radius_changes_a_pairwise_election(one: Listed, attacker: Attacker) -> None:
    """From scores to winners as the device ranks them; every input of zeros and ones, and every perturbation of it."""
    assert isinstance(one.scheme, FixedMasks)
    adversary = attacker.adversary(one.scheme)
    if adversary is None:
        return
    for seed in range(20):
        copies = _copies(one, seed)
        scores = torch.tensor([[own for own, _ in found] for found in copies.values()], dtype=torch.float64)
        ranks = rank(scores.flatten(0, 1)).view(scores.shape).numpy()
        labels, radii = RULES["pairwise"].certify(ranks, adversary)
        best = [_elected(found) for found in copies.values()]
        assert all(expected in (None, label) for expected, label in zip(best, labels.tolist(), strict=True))
        assert all(radius == 0 for radius, expected in zip(radii.tolist(), best, strict=True) if expected is None)
        for x, label, radius in zip(copies, labels.tolist(), radii.tolist(), strict=True):
            for y, other in zip(copies, labels.tolist(), strict=True):
                if attacker.name == "patch":
                    reached = in_a_patch(x, y, one.scheme.width, radius)  # type: ignore[attr-defined]
                else:
                    reached = _apart(x, y) <= radius
                assert other == label or not reached


def test_fixed_masks_have_cycles_of_three_four_and_five_classes() -> None:
    seen = defaultdict(int)
    for one, seed in product(FIXED, range(20)):
        for found in _copies(one, seed).values():
            seen[len(found[0][0])] += _elected(found) is None
    assert all(seen[classes] > 10 for classes in (3, 4, 5))


@pytest.mark.parametrize("noise", [one for one in NOISES if one.values <= 3], ids=str)
def test_no_perturbation_within_the_radius_changes_the_class_that_beats_all_random_copies(noise: RandomValues) -> None:
    chance, shown, changed = random.Random(4), [*product(range(noise.values), repeat=2)], set[tuple[int, int]]()
    method = CERTIFICATES["pairwise"]
    assert method.theorem_for(noise) == (majority, "random-values-pairwise")
    for turn in range(400):
        usual = _drawn(chance, 3)
        scores = [usual if chance.random() < 0.6 else _drawn(chance, 3) for _ in shown]
        copies = {x: [(own, _likely(noise, copy, x)) for copy, own in zip(shown, scores, strict=True)] for x in shown}
        x = shown[turn % len(shown)]
        label = answer(copies[x])
        if label is None:
            continue
        least = min(chances(copies[x], label))
        radius = majority(Interval(label, least, 1 - least), noise)
        changed |= {(_apart(x, y), -1 if radius is None else radius) for y in shown if answer(copies[y]) != label}
    assert all(rho > radius for rho, radius in changed)
    assert (1, 0) in changed


@pytest.mark.parametrize("noise", [one for one in NOISES if one.kappa < 1], ids=str)
def test_the_radius_for_random_copies_is_the_largest_that_the_worst_case_allows(noise: RandomValues) -> None:
    """Copies that look most like x, against x', rank class 0 first; all others rank it last."""
    first, last, seen = (2.0, 1.0, 0.0), (0.0, 1.0, 2.0), set[bool]()
    shown, x = [*product(range(noise.values), repeat=2)], (0, 0)
    for rho, y in ((1, (0, 1)), (2, (1, 1))):
        ratio = {copy: _likely(noise, copy, x) / _likely(noise, copy, y) for copy in shown}
        for level in {*ratio.values()}:
            scores = [first if ratio[copy] >= level else last for copy in shown]
            here, there = (
                [(own, _likely(noise, copy, at)) for copy, own in zip(shown, scores, strict=True)] for at in (x, y)
            )
            least = min(chances(here, 0))
            radius = majority(Interval(0, least, 1 - least), RandomValues(2, noise.kappa, noise.values))
            survives = answer(there) == 0
            assert survives == (radius is not None and radius >= rho)
            seen.add(survives)
    assert seen == {True, False}


def _likely(noise: RandomValues, copy: Input, x: Input) -> Fraction:
    """How likely the copy is of x, of two units."""
    one, other = (noise.kappa if a == b else noise.beta for a, b in zip(copy, x, strict=True))
    return one * other


# --- coverage: copies with these scores and shares, all outcomes of few votes

A_B_C, B_C_A, C_A_B, A_C_B, NOBODY = (2.0, 1.0, 0.0), (0.0, 2.0, 1.0), (1.0, 0.0, 2.0), (2.0, 0.0, 1.0), (NAN, 0.0, 0.0)
EQUAL = (1.0, 1.0, 1.0)  # 0 above 1 above 2
WORLDS = {
    "a cycle": {A_B_C: 1, B_C_A: 1, C_A_B: 1},
    "a cycle, nearly not": {A_B_C: 4, B_C_A: 3, C_A_B: 3},
    "a tie of two": {A_B_C: 1, B_C_A: 1},
    "both rivals at a half": {A_B_C: 1, B_C_A: 1, EQUAL: 1, C_A_B: 1},
    "each rival has its own votes": {A_B_C: 4, B_C_A: 3, C_A_B: 3, NOBODY: 1},
    "a clear answer": {A_B_C: 6, A_C_B: 5, B_C_A: 2, NOBODY: 1},
    "half invalid": {A_B_C: 1, NOBODY: 1},
}
World = dict[Scores, int]
LEVELS = Fraction(1, 20), Fraction(1, 4)
SCHEME = Uniform(12, 2)
DELTAS = [slow.share_met(slow.uniform_masks(12, 2), rho) for rho in range(13)]


def _shares(world: World) -> list[tuple[Scores, Fraction]]:
    return [(scores, Fraction(share, sum(world.values()))) for scores, share in world.items()]


def tallied(kinds: list[Scores], counts: slow.Votes, label: int) -> Tally:
    """So many copies with each of these scores, compared with the label; by plain loops."""
    votes, above, invalid = [0, 0, 0], [0, 0, 0], 0
    for scores, count in zip(kinds, counts, strict=True):
        if not all(map(math.isfinite, scores)):
            invalid += count
            continue
        votes[scores.index(max(scores))] += count
        for other in range(3):
            above[other] += count * (other == label or ranks_above(scores, label, other))
    return Tally(tuple(votes), invalid, tuple(above))


def chosen_by(kinds: list[Scores], counts: slow.Votes) -> Tally:
    """The selection votes of so many copies with each of these scores."""
    rows = [tallied(kinds, counts, label) for label in range(3)]
    votes = Counts(np.array([rows[0].votes]), np.array([rows[0].invalid]))
    return votes.choosing_by(np.array([[row.above for row in rows]]))[0]


@cache
def _outcomes(name: str, votes: int) -> list[tuple[slow.Votes, Fraction]]:
    shares = [share for _, share in _shares(WORLDS[name])]
    return [(one, slow.chance_of(one, shares)) for one in slow.multinomials(votes, len(shares))]


@pytest.mark.parametrize("name", WORLDS)
def test_all_counts_are_covered_at_once_and_every_radius_is_true_often_enough(name: str) -> None:
    kinds, copies = [*WORLDS[name]], _shares(WORLDS[name])
    for label in range(3):
        q = chances(copies, label)
        selection, true = Tally((0, 0, 0), chosen=label), slow.largest(DELTAS, min(q) - HALF)
        for votes, level in ((6, LEVELS[0]), (11, LEVELS[0]), (11, LEVELS[1])):
            missed = wrong = Fraction(0)
            for outcome, chance in _outcomes(name, votes):
                tally = tallied(kinds, outcome, label)
                found = pairwise(selection, tally, level)
                assert found.label == label
                missed += chance * any(found.p_lower > each or found.p_upper < 1 - each for each in q)
                radius = CERTIFICATES["pairwise"].certify(selection, tally, SCHEME, level).radius
                wrong += chance * ((-1 if radius is None else radius) > (-1 if true is None else true))
                assert found.p_lower >= one_sided(selection, tally, level).p_lower
            assert missed <= level
            assert wrong <= level


def test_coverage_where_it_is_least() -> None:
    """With q just below a bound that few votes give, all but nothing of alpha is used; with several rivals too."""
    for votes, count, level in ((11, 8, LEVELS[0]), (11, 10, LEVELS[1]), (7, 5, LEVELS[1])):
        q = Fraction(lower_bound(count, votes, level)) - Fraction(1, 1 << 30)
        worlds = [
            {A_B_C: q, B_C_A: 1 - q},  # both rivals together
            {A_B_C: 2 * q - 1, C_A_B: 1 - q, (1.0, 2.0, 0.0): 1 - q},  # each rival has copies of its own
        ]
        for world in worlds:
            kinds, shares = [*world], [*world.values()]
            if min(shares) < 0:
                continue
            assert chances([*world.items()], 0) == [q, q]
            missed = Fraction(0)
            for outcome in slow.multinomials(votes, len(kinds)):
                found = pairwise(Tally((1, 0, 0)), tallied(kinds, outcome, 0), level)
                missed += slow.chance_of(outcome, shares) * (found.p_lower > q)
            assert missed <= level
            assert world is not worlds[0] or missed > level * Fraction(999, 1000)


@pytest.mark.parametrize("name", WORLDS)
def test_no_moment_to_stop_at_makes_it_wrong_too_often(name: str) -> None:
    kinds, copies, alpha, most = [*WORLDS[name]], _shares(WORLDS[name]), LEVELS[1], 14
    assert most <= MOST
    for label in range(2):
        true = slow.largest(DELTAS, min(chances(copies, label)) - HALF)
        selection = Tally((3, 1, 1), 0, (5, 4, 4), chosen=label)
        right, wrong = {(0,) * len(kinds): Fraction(1)}, Fraction(0)
        for _ in range(most):
            after: dict[slow.Votes, Fraction] = defaultdict(Fraction)
            for votes, chance in right.items():
                for place, (_, share) in enumerate(copies):
                    after[(*votes[:place], votes[place] + 1, *votes[place + 1 :])] += chance * share
            right = {}
            for votes, chance in after.items():
                tally = tallied(kinds, votes, label)
                radius = certify_anytime(selection, tally, SCHEME, alpha, "pairwise", MOST).radius
                if (-1 if radius is None else radius) > (-1 if true is None else true):
                    wrong += chance
                else:
                    right[votes] = chance
        assert wrong <= alpha


@pytest.mark.parametrize("name", WORLDS)
def test_predictions_by_pairs_are_seldom_wrong(name: str) -> None:
    """Every outcome of the copies that choose and of those that test."""
    kinds, right = [*WORLDS[name]], answer(_shares(WORLDS[name]))
    for choosing, testing, level in ((1, 8, LEVELS[0]), (3, 9, LEVELS[1]), (5, 9, LEVELS[0])):
        chosen: dict[int, Fraction] = defaultdict(Fraction)
        for outcome, chance in _outcomes(name, choosing):
            chosen[chosen_by(kinds, outcome).leader()] += chance
        assert sum(chosen.values()) == 1
        wrong = Fraction(0)
        for label, likely in chosen.items():
            for outcome, chance in _outcomes(name, testing):
                found = predicted_by_pairs(Tally((0, 0, 0), chosen=label), tallied(kinds, outcome, label), level)
                assert found in (None, label)
                wrong += likely * chance * (found is not None and found != right)
        assert wrong <= level


def test_to_choose_and_to_test_on_the_same_copies_would_be_wrong_too_often() -> None:
    level, kinds, wrong = Fraction(1, 5), [*WORLDS["a tie of two"]], Fraction(0)
    for outcome, chance in _outcomes("a tie of two", 11):
        same = chosen_by(kinds, outcome)
        wrong += chance * (predicted_by_pairs(same, same, level) is not None)
    assert wrong > level


# --- what a change of the question does to the answer


def test_the_class_chosen_has_the_largest_smallest_count() -> None:
    chance = random.Random(6)
    for _ in range(300):
        kinds = [_drawn(chance, 3) for _ in range(4)]
        counts = tuple(chance.randrange(6) for _ in kinds)
        smallest = [smallest_count(tallied(kinds, counts, label)) for label in range(3)]
        found = chosen_by(kinds, counts)
        assert found.leader() == smallest.index(max(smallest))
        assert found.above == tallied(kinds, counts, found.leader()).above


def test_a_copy_that_ranks_the_class_lower_never_helps() -> None:
    chance, seen = random.Random(7), set()
    kinds: list[Scores] = [*map(tuple, permutations((0.0, 1.0, 2.0))), NOBODY]  # type: ignore[arg-type]

    def beaten(kind: int) -> set[int]:
        return {other for other in (1, 2) if ranks_above(kinds[kind], 0, other)}

    lower = [[other for other in range(7) if beaten(other) <= beaten(kind)] for kind in range(7)]
    for turn in range(40):
        weights = [1 + turn * (scores[0] == 2.0) for scores in kinds[:-1]] + [0.5]
        drawn, before = chance.choices(range(7), weights, k=120), (10**9, 10**9)
        for _ in range(12):
            tally = tallied(kinds, tuple(drawn.count(kind) for kind in range(7)), 0)
            selection = Tally((3, 1, 1), 0, (5, 4, 4))
            found = (
                CERTIFICATES["pairwise"].certify(selection, tally, Uniform(60, 3), LEVELS[0]).radius,
                certify_anytime(selection, tally, Uniform(60, 3), LEVELS[0], "pairwise", MOST).radius,
            )
            radii = tuple(-1 if radius is None else radius for radius in found)
            assert all(now <= then for now, then in zip(radii, before, strict=True))
            before = radii  # type: ignore[assignment]
            seen.add(radii)
            for place in chance.sample(range(120), 4):
                drawn[place] = chance.choice(lower[drawn[place]])
    assert len(seen) > 3


def test_votes_that_were_not_compared_are_refused() -> None:
    plain = Tally((50, 10, 0))
    for ask in (
        lambda: pairwise(plain, plain, LEVELS[0]),
        lambda: predicted_by_pairs(plain, plain, LEVELS[0]),
        lambda: certify_anytime(plain, plain, SCHEME, 0.05, "pairwise", 100),
    ):
        with pytest.raises(InputError, match="do not say how often a copy ranks the class above each other one"):
            ask()
