"""Pairwise elections in small: cycles, ties, copies without an opinion; and many elections at once, by every rule."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from sparsecert.certificates.adversary import Adversary, ClaimedUnits, PerturbedUnits
from sparsecert.certificates.enumerated import EnumeratedUnits
from sparsecert.certificates.pairwise import pairwise, pairwise_winners
from sparsecert.certificates.patches import PerturbedPatch
from sparsecert.certificates.plurality import count_labels, top_choices
from sparsecert.certificates.run_off import run_off_winners
from sparsecert.registry import RULES
from sparsecert.schemes import AllSubsets, Bands, Partition

Int64 = npt.NDArray[np.int64]

NO_OPINION = ""
DISJOINT = PerturbedUnits(np.eye(9, dtype=bool))
OVERLAPPING = Partition(24, 3, rounds=3).table  # 9 masks
ADVERSARIES: dict[str, Adversary] = {
    "disjoint": DISJOINT,
    "overlapping": PerturbedUnits(OVERLAPPING),
    "linear programs": PerturbedUnits(OVERLAPPING, seconds=10),
    "claimed": ClaimedUnits(OVERLAPPING, 2, seconds=10),
    "enumerated": EnumeratedUnits(AllSubsets(units=9, keep=8).table),
    "patches": PerturbedPatch(Bands(9, 9, 3).table, 9, 9),
}


def _ranks(*orders: str) -> Int64:
    """One election: each copy's classes from its first choice to its last, such as "201"."""
    classes = max(map(len, orders))
    return np.array([[order.index(str(c)) if order else 0 for c in range(classes)] for order in orders])


def _elect(ranks: Int64) -> tuple[int, int]:
    """The winner and the radius where each copy has one unit of its own."""
    (label,), (radius,) = pairwise(ranks[None], PerturbedUnits(np.eye(len(ranks), dtype=bool)))
    assert pairwise_winners(ranks[None]).tolist() == [label]
    return int(label), int(radius)


def _run_off(ranks: Int64) -> int:
    return int(run_off_winners(ranks[None]).item())


def _random_elections(chance: np.random.Generator, inputs: int, masks: int, classes: int) -> Int64:
    """Rankings that lean to some class, more or less; now and then a copy has no opinion."""
    scores = chance.random((inputs, masks, classes))
    sure, favourite = chance.choice([0.0, 0.3, 0.7], inputs), chance.integers(classes, size=inputs)
    scores[np.arange(inputs), :, favourite] -= sure[:, None]
    ranks = scores.argsort(axis=2).argsort(axis=2)
    ranks[chance.random((inputs, masks)) < 0.1] = 0
    return ranks


def _lead(ranks: Int64, label: int, rival: int) -> int:
    return sum(int(one[label] < one[rival]) - int(one[label] > one[rival]) for one in ranks)


def _beats(ranks: Int64, label: int, rival: int) -> bool:
    return _lead(ranks, label, rival) > 0 or (_lead(ranks, label, rival) == 0 and label < rival)


@pytest.mark.parametrize("classes", [3, 4, 5, 7])
def test_a_cycle_is_won_by_the_winner_of_the_run_off_at_radius_0(classes: int) -> None:
    """Each copy has the same order, begun at another class: every class but one is beaten by the one before it."""
    orders = ["".join(str((first + place) % classes) for place in range(classes)) for first in range(classes)]
    cycle = _ranks(*orders, *orders[-2:])  # the last two have one first choice more: they meet in round two
    assert all(_beats(cycle, (label - 1) % classes, label) for label in range(classes))
    assert _elect(cycle) == (_run_off(cycle), 0) == (classes - 2, 0)


def test_a_cycle_below_the_class_that_beats_all_is_no_cycle() -> None:
    ranks = _ranks("3012", "3120", "3201", "0123", "1203")
    assert _elect(ranks) == (3, 0)
    assert _elect(_ranks("0123", "0231", "0312", "0123", "0231")) == (0, 2)


def test_ties_favour_the_lower_class() -> None:
    assert _elect(_ranks("01", "10")) == (0, 0)
    assert _elect(_ranks("01", "01", "10")) == (0, 0)
    assert _elect(_ranks("01", "01", "01", "10")) == (0, 1)  # one copy changed makes a tie
    assert _elect(_ranks("10", "10", "10", "01")) == (1, 0)  # a tie that class 0 wins
    assert _elect(_ranks("10", "10", "10", "10", "01")) == (1, 1)


def test_a_tie_is_no_cycle() -> None:
    """All three classes are tied in pairs: class 0 beats both others, if only by its number."""
    assert _elect(_ranks("012", "210")) == (0, 0)
    assert _elect(_ranks("102", "201", "012", "210")) == (0, 0)


def test_a_copy_without_an_opinion_counts_for_no_class_and_can_be_won_by_any() -> None:
    """It costs the lead 1 where another vote for the winner costs 2."""
    assert _elect(_ranks("01", "01", NO_OPINION)) == (0, 1)
    assert _elect(_ranks("10", NO_OPINION)) == (1, 0)
    assert _elect(_ranks("01", NO_OPINION, NO_OPINION)) == (0, 0)
    all_silent = np.zeros((4, 3), dtype=np.int64)
    assert _elect(all_silent) == (0, 0)
    for masks, radius in ((1, 0), (2, 1), (3, 1), (4, 2)):  # those of the winner are perturbed first
        assert _elect(_ranks(*["012"] * masks, NO_OPINION, NO_OPINION)) == (0, radius)


@pytest.mark.parametrize("classes", [2, 3, 4, 10])
def test_the_radius_of_disjoint_masks(classes: int) -> None:
    """The smallest floor((lead_j + [A < j] - 1) / 2), or 0 and the run-off's winner if no class beats all others."""
    elections, cycles = _random_elections(np.random.default_rng(classes), 300, 9, classes), 0
    labels, radii = pairwise(elections, DISJOINT)
    for ranks, label, radius in zip(elections, labels.tolist(), radii.tolist(), strict=True):
        rivals = [j for j in range(classes) if j != label]
        best = [c for c in range(classes) if all(_beats(ranks, c, j) for j in range(classes) if j != c)]
        cycles += not best
        assert label == (best[0] if best else _run_off(ranks))
        assert radius == (min((_lead(ranks, label, j) + (label < j) - 1) // 2 for j in rivals) if best else 0)
    assert cycles or classes == 2


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_never_below_a_majority_of_first_choices(classes: int) -> None:
    """A class that most copies rank first leads every rival by at least its majority, whatever the others think."""
    elections, seen = _random_elections(np.random.default_rng(classes), 300, 9, classes), set()
    labels, radii = pairwise(elections, DISJOINT)
    for ranks, label, radius in zip(elections, labels.tolist(), radii.tolist(), strict=True):
        firsts = count_labels(top_choices(ranks), classes)
        leading = int(firsts.argmax())
        budget = int(2 * firsts[leading] - firsts.sum()) - (leading > 0)
        if budget >= 0:
            assert label == leading
            assert radius >= budget // 2
            seen.add(radius - budget // 2)
    assert len(seen) > 1 or classes == 2


def test_below_the_plurality_where_third_classes_think_little_of_the_winner() -> None:
    """Class 0 has five first choices and each other one; but the others' copies all rank class 1 above it."""
    ranks = _ranks(*["01234"] * 5, "12340", "21340", "31240", "41230")
    (label,), (radius,) = RULES["plurality"].certify(ranks[None], DISJOINT)
    assert (label, radius) == (0, 2)
    assert _elect(ranks) == (0, 0)


def test_above_the_plurality_where_third_classes_think_much_of_the_winner() -> None:
    ranks = _ranks("012", "012", "012", "012", "102", "102", "102", "201", "201")
    (label,), (radius,) = RULES["plurality"].certify(ranks[None], DISJOINT)
    assert (label, radius) == (0, 0)
    assert _elect(ranks) == (0, 1)


@pytest.mark.parametrize("name", ADVERSARIES)
@pytest.mark.parametrize("rule", RULES)
def test_many_elections_at_once_are_those_of_each(rule: str, name: str) -> None:
    adversary, chance = ADVERSARIES[name], np.random.default_rng(3)
    for classes in (2, 3, 5):
        elections = _random_elections(chance, 6 if name in ("linear programs", "claimed") else 80, 9, classes)
        labels, radii = RULES[rule].certify(elections, adversary)
        assert labels.tolist() == RULES[rule].winners(elections).tolist()
        for ranks, label, radius in zip(elections, labels, radii, strict=True):
            (one,), (alone,) = RULES[rule].certify(ranks[None], adversary)
            assert (label, radius) == (one, alone)
