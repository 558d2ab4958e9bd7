"""Exact certificates against every change there is."""

from __future__ import annotations

from itertools import combinations, permutations, product
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt
import pytest
import torch
from scipy.optimize import linprog

from sparsecert.certificates import adversary as damages
from sparsecert.certificates.adversary import ClaimedUnits, PerturbedUnits
from sparsecert.certificates.lp_dual import SCALE, proposed_prices
from sparsecert.certificates.plurality import ExactCertificate, count_labels, first_choices, top_choices
from sparsecert.errors import InputError
from sparsecert.registry import RULES
from tests.helpers import one_plurality, one_run_off

Bool = npt.NDArray[np.bool_]
Int64 = npt.NDArray[np.int64]

PARTITION = np.eye(5, dtype=bool).repeat(2, axis=1)  # five masks of two units
UNEVEN = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 0], [0, 0, 0, 0, 0, 1]], dtype=bool)
OVERLAPPING = np.array(
    [[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1], [1, 0, 0, 0, 0, 1], [0, 1, 1, 0, 0, 0]], dtype=bool
)
STAR = np.array([[1, 1, 0, 0, 0], [1, 0, 1, 0, 0], [1, 0, 0, 1, 0], [1, 0, 0, 0, 1]], dtype=bool)
SETS = {"partition": PARTITION, "uneven": UNEVEN, "overlapping": OVERLAPPING, "star": STAR}
DISJOINT = "partition", "uneven"


def _met(masks: Bool, rho: int) -> list[frozenset[int]]:
    """The sets of masks that some rho units meet; those within another are left out, they can do no more."""
    met = {
        frozenset(np.flatnonzero(masks[:, list(units)].any(axis=1)).tolist())
        for units in combinations(range(masks.shape[1]), rho)
    }
    return [one for one in met if not any(one < other for other in met)]


def _elected(ranks: Int64) -> int:
    """The run-off, written anew: by sorting."""
    classes = ranks.shape[1]
    firsts = [int(row.argmin()) for row in ranks if row.min() != row.max()]
    order = sorted(range(classes), key=lambda label: (-firsts.count(label), label))
    one, other = sorted(order[:2])
    for_one = sum(int(row[one] < row[other]) - int(row[one] > row[other]) for row in ranks)
    return one if for_one >= 0 else other


def _true_radius_of_votes(labels: Int64, classes: int, masks: Bool) -> int:
    """The largest number of units whose masks, whatever they are made to vote, do not change the plurality."""
    label = count_labels(labels, classes).argmax()
    for rho in range(1, masks.shape[1] + 1):
        for met in _met(masks, rho):
            for votes in product(range(classes), repeat=len(met)):
                changed = labels.copy()
                changed[list(met)] = votes
                if count_labels(changed, classes).argmax() != label:
                    return rho - 1
    return masks.shape[1]


def _true_radius_of_ranks(ranks: Int64, masks: Bool, most: int) -> int:
    label, classes = _elected(ranks), ranks.shape[1]
    orders = [np.array(order) for order in permutations(range(classes))]
    for rho in range(1, most + 1):
        for met in _met(masks, rho):
            for votes in product(orders, repeat=len(met)):
                changed = ranks.copy()
                for mask, order in zip(met, votes, strict=True):
                    changed[mask] = order
                if _elected(changed) != label:
                    return rho - 1
    return most


def _ranks(random: np.random.Generator, count: int, classes: int, sure: float) -> Int64:
    """Rankings that mostly agree on one class; now and then a copy has no opinion."""
    ranks = np.argsort(
        random.random((count, classes)) - sure * (np.arange(classes) == random.integers(classes)), axis=1
    )
    ranks = np.argsort(ranks, axis=1)
    ranks[random.random(count) < 0.1] = 0
    return ranks


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("classes", [2, 3, 4])
def test_no_perturbation_within_the_radius_changes_the_plurality(name: str, classes: int) -> None:
    """Where masks do not overlap, the radius is also the largest that is true."""
    masks, random = SETS[name], np.random.default_rng(classes)
    adversary, tight = PerturbedUnits(masks), PerturbedUnits(masks, seconds=10)
    seen = set()
    for _ in range(60):
        labels = np.where(
            random.random(len(masks)) < 0.7, random.integers(classes), random.integers(classes + 1, size=len(masks))
        )
        found, tighter = one_plurality(labels, classes, adversary), one_plurality(labels, classes, tight)
        true = _true_radius_of_votes(labels, classes, masks)
        assert found.label == tighter.label == count_labels(labels, classes).argmax()
        assert 0 <= found.radius <= tighter.radius <= true
        assert found.radius == true or name not in DISJOINT
        seen.add(found.radius)
    assert len(seen) > 1 or name == "star"  # one unit of which meets all masks


@pytest.mark.parametrize("name", SETS)
def test_no_perturbation_within_the_radius_changes_the_run_off(name: str) -> None:
    masks, random = SETS[name], np.random.default_rng(0)
    adversary, tight, seen = PerturbedUnits(masks), PerturbedUnits(masks, seconds=10), set()
    for trial in range(25):
        ranks = _ranks(random, len(masks), 3, sure=float(trial % 5) / 4)
        found, tighter = one_run_off(ranks, adversary), one_run_off(ranks, tight)
        assert found.label == tighter.label == _elected(ranks)
        assert 0 <= found.radius <= tighter.radius
        assert tighter.radius <= _true_radius_of_ranks(ranks, masks, most=max(1, tighter.radius))
        seen.add(found.radius)
    assert len(seen) > 1 or name == "star"  # one unit of which meets all masks


def test_the_run_off_with_four_classes() -> None:
    """Two rivals can push the winner out of round one, and a third class can come in."""
    random, masks = np.random.default_rng(1), np.eye(3, dtype=bool)
    for _ in range(60):
        ranks = _ranks(random, 3, 4, sure=0.5)
        found = one_run_off(ranks, PerturbedUnits(masks))
        assert found.label == _elected(ranks)
        assert found.radius <= _true_radius_of_ranks(ranks, masks, most=min(2, found.radius + 1))


def test_the_run_off_can_certify_more_than_the_plurality() -> None:
    """Votes that third classes took in round one count for the winner in round two."""
    third = [[1, 2, *(np.roll([0, 3, 4], place).tolist())] for place in range(3)]
    ranks = np.array([[0, 1, 2, 3, 4]] * 5 + [[1, 0, 2, 3, 4]] * 3 + third)
    adversary = PerturbedUnits(np.eye(11, dtype=bool))
    assert one_plurality(ranks.argmin(axis=1), 5, adversary) == ExactCertificate(0, 1)
    assert one_run_off(ranks, adversary) == ExactCertificate(0, 2)


@pytest.mark.parametrize("votes", sorted({*permutations((1, 2, 2))}))
def test_two_of_three_rivals_push_the_winner_out_of_round_one(votes: tuple[int, int, int]) -> None:
    """All rank class 0 first or second: it cannot lose round two, and only the two strongest pass it that soon."""

    def ranked(first: int) -> list[int]:
        order = [first, *(label for label in range(4) if label != first)]
        return [order.index(label) for label in range(4)]

    ranks = np.array([ranked(first) for first in np.repeat(np.arange(4), (4, *votes))])
    assert one_run_off(ranks, PerturbedUnits(np.eye(9, dtype=bool))) == ExactCertificate(0, 1)
    ranks[:2] = [ranked(label) for label in range(1, 4) if votes[label - 1] == 2]
    assert _elected(ranks) != 0


def test_ties_favour_the_lower_class() -> None:
    adversary = PerturbedUnits(np.eye(4, dtype=bool))
    assert one_plurality(np.array([0, 0, 1, 1]), 2, adversary) == ExactCertificate(0, 0)
    assert one_plurality(np.array([1, 1, 1, 0]), 2, adversary) == ExactCertificate(1, 0)
    assert one_plurality(np.array([0, 0, 0, 1]), 2, adversary) == ExactCertificate(0, 1)


def test_the_damage_is_never_less_than_any_units_do() -> None:
    random = np.random.default_rng(2)
    for name, masks in SETS.items():
        adversary = PerturbedUnits(masks)
        assert adversary.disjoint is (name in DISJOINT)
        for _ in range(20):
            costs = random.integers(0, 4, len(masks))
            bounds = adversary.bounds(costs)
            for rho in range(masks.shape[1] + 1):
                worst = max(
                    int(costs[masks[:, list(units)].any(axis=1)].sum())
                    for units in combinations(range(masks.shape[1]), rho)
                )
                assert worst <= bounds[rho] <= costs.sum()
                assert worst == bounds[rho] or not adversary.disjoint
                assert worst == bounds[rho] or rho > 1
                prices = proposed_prices(masks, costs, rho, seconds=10)
                assert prices is not None
                assert SCALE * worst <= adversary.priced_bound(costs, prices, rho)
                some = [int(random.integers(0, SCALE * cost + 1)) for cost in costs]
                assert SCALE * worst <= adversary.priced_bound(costs, some, rho)


def test_the_prices_proposed_prove_the_optimum_of_the_relaxed_attack() -> None:
    """By duality, against the same linear program from the attacker's side, solved here by itself."""
    random = np.random.default_rng(4)
    for masks in SETS.values():
        count, units = masks.shape
        for rho in range(1, units):
            costs = random.integers(0, 4, count)
            limits = np.vstack(
                (np.hstack((np.eye(count), -masks.astype(float))), np.repeat((0.0, 1.0), (count, units)))
            )
            solved = linprog([*-costs, *[0] * units], limits, [*[0] * count, rho], bounds=(0, 1))
            prices = proposed_prices(masks, costs, rho, seconds=10)
            assert prices is not None
            assert PerturbedUnits(masks).priced_bound(costs, prices, rho) / SCALE == pytest.approx(
                -solved.fun, abs=1e-3
            )


def test_prices_are_from_nothing_to_the_cost_whatever_the_solver_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its numbers are of the relaxed attack's limits, those of the masks first, and below 0 but for rounding."""
    marginals = np.array([3 / SCALE, -1e-12, -1 / SCALE, -0.5, -3.0, -7.0])
    solved = SimpleNamespace(status=0, ineqlin=SimpleNamespace(marginals=marginals))
    monkeypatch.setattr("scipy.optimize.linprog", lambda *_, **__: solved)
    found = proposed_prices(OVERLAPPING, np.array([2, 2, 2, 1, 2]), 1, seconds=10)
    assert found == [0, 0, 1, SCALE // 2, 2 * SCALE]


def test_prices_prove_what_charging_every_mask_cannot() -> None:
    """Two units are in the same three masks: whoever perturbs both is charged for six, and has met three."""
    masks = np.zeros((8, 7), dtype=bool)
    masks[:3, :2] = True
    masks[3:, 2:] = np.eye(5, dtype=bool)
    labels = np.zeros(8, dtype=np.int64)
    assert one_plurality(labels, 2, PerturbedUnits(masks)) == ExactCertificate(0, 1)
    assert one_plurality(labels, 2, PerturbedUnits(masks, seconds=10)) == ExactCertificate(0, 2)
    assert _true_radius_of_votes(labels, 2, masks) == 2


def test_a_claim_is_taken_where_prices_prove_it_and_never_otherwise() -> None:
    """Against one program after the other, and against every choice of units."""
    random, reported = np.random.default_rng(6), set()
    masks = np.zeros((8, 7), dtype=bool)
    masks[:3, :2] = True
    masks[3:, 2:] = np.eye(5, dtype=bool)
    for known in (masks, OVERLAPPING):
        count, units = known.shape
        costs = random.integers(0, 4, (30, count))
        budgets = random.integers(-1, costs.sum(axis=1) + 1)
        plain, tight = (PerturbedUnits(known, seconds).radii(costs, budgets) for seconds in (0.0, 10.0))
        for claimed in range(units + 1):
            found = ClaimedUnits(known, claimed, seconds=10.0).radii(costs, budgets)
            assert found.tolist() == np.where((plain < claimed) & (claimed <= tight), claimed, plain).tolist()
            reported |= {*np.sign(found - plain).tolist(), *np.sign(found - claimed).tolist()}
            for cost, budget, radius in zip(costs, budgets, found, strict=True):
                assert radius < 1 or max(int(cost[list(met)].sum()) for met in _met(known, int(radius))) <= budget
    assert reported == {-1, 0, 1}


def test_no_time_for_the_linear_program_leaves_the_radius_as_it_was() -> None:
    assert proposed_prices(OVERLAPPING, np.ones(5, dtype=np.int64), 1, seconds=0.0) is None
    labels = np.array([0, 0, 0, 0, 1])
    assert (
        one_plurality(labels, 2, PerturbedUnits(OVERLAPPING, seconds=1e-9)).radius
        >= one_plurality(labels, 2, PerturbedUnits(OVERLAPPING)).radius
    )


def test_no_more_units_than_there_are_and_none_where_nothing_may_be_lost() -> None:
    """A budget for all masks together, for nothing, and one that is overdrawn already."""
    adversary, costs = PerturbedUnits(OVERLAPPING, seconds=1), np.full((3, 5), 2)
    assert adversary.radii(costs, np.array([10, 0, -1])).tolist() == [6, 0, -1]


def test_charges_of_many_masks_are_added_up_without_overflow() -> None:
    """A unit in two masks that cost 2**14 each is charged one more than 16 bits hold."""
    both = PerturbedUnits(np.ones((2, 1), dtype=bool))
    assert both.bounds(np.array([1 << 14, 1 << 14])).tolist() == [0, 1 << 15]
    one = PerturbedUnits(np.ones((1, 1), dtype=bool))
    assert one.bounds(np.array([50_000])).tolist() == [0, 50_000]


def test_the_smallest_radius_is_that_of_all_rivals_looked_at_one_by_one() -> None:
    """Also where a unit is in more masks than a mask has units, and where nothing costs anything."""
    random = np.random.default_rng(3)
    repeated = np.eye(3, dtype=bool).repeat(4, axis=0)  # four masks of each of three units
    for masks in (*SETS.values(), repeated, repeated[:5]):
        adversary = PerturbedUnits(masks)
        for most in (0, 1, 2, 3):
            costs = random.integers(0, most, (4, 30, len(masks)), endpoint=True)
            budgets = random.integers(-1, 12, (4, 30))
            radii = [[int(adversary.radii(costs[j, i], budgets[j, i])) for i in range(30)] for j in range(4)]
            assert adversary.least_radii(costs, budgets).tolist() == np.min(radii, axis=0).tolist()


def test_first_choices_are_counted_and_copies_without_an_opinion_are_invalid() -> None:
    """Two inputs, four copies, three classes: no two numbers are alike."""
    ranks = np.array([[[0, 1, 2], [0, 2, 1], [1, 0, 2], [0, 0, 0]], [[2, 1, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]])
    found = first_choices(ranks)
    assert found.votes.tolist() == [[2, 1, 0], [0, 0, 1]]
    assert found.invalid.tolist() == [1, 3]


def test_one_linear_program_after_the_other_as_long_as_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call is about one more unit and gets the seconds that are left: of ten, at the given times."""
    masks, asked = np.eye(9, dtype=bool), list[tuple[int, float]]()
    masks[0, 1] = True  # so that two overlap

    def prices(_: Bool, costs: Int64, rho: int, seconds: float) -> list[int]:
        asked.append((rho, seconds))
        return [0] * len(costs)  # whatever is perturbed, no more is lost than all masks cost

    class Clock:
        def __init__(self, *moments: float) -> None:
            self.monotonic = iter(moments).__next__

    monkeypatch.setattr(damages, "proposed_prices", prices)
    adversary, costs = PerturbedUnits(masks, seconds=10.0), np.ones(9, dtype=np.int64)
    for moments, expected in (
        ((5.0, 5.5, 14.5, 15.0), [(3, 9.5), (4, 0.5)]),
        ((5.0, 15.5), []),
        ((5.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0), [(rho, 13.0 - rho) for rho in range(3, 10)]),
    ):
        monkeypatch.setattr(damages, "time", Clock(*moments))
        assert adversary._tightened(costs, 9, 2) == 2 + len(expected)
        assert asked == expected
        asked.clear()


def test_what_is_no_set_of_masks_is_refused() -> None:
    with pytest.raises(InputError, match="masks must be booleans"):
        PerturbedUnits(np.ones((2, 3)))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="price"):
        PerturbedUnits(PARTITION).priced_bound(np.ones(5, dtype=np.int64), [SCALE + 1] * 5, 1)
    for wrong in (-1, (1 << 20) + 1):
        with pytest.raises(ValueError, match="costs"):
            PerturbedUnits(PARTITION).bounds(np.array([0, wrong, 0, 0, 0]))
    assert PerturbedUnits(PARTITION).bounds(np.full(5, 1 << 20))[1] == 1 << 20
    for shape in ((3,), (0, 3), (3, 0), (2, 3, 4)):
        with pytest.raises(InputError, match="masks must be booleans"):
            PerturbedUnits(np.ones(shape, dtype=bool))
    with pytest.raises(ValueError, match="price"):
        PerturbedUnits(PARTITION).priced_bound(np.ones(5, dtype=np.int64), [-1, 0, 0, 0, 0], 1)
    assert PerturbedUnits(PARTITION).priced_bound(np.ones(5, dtype=np.int64), [0, SCALE, 0, 0, 0], 1) == 5 * SCALE


@pytest.mark.parametrize("rule", [name for name in RULES if RULES[name].standings is not None])
@pytest.mark.parametrize("classes", [2, 3, 5, 40])
def test_standings_of_many_elections_are_those_of_each(rule: str, classes: int) -> None:
    """The largest, of equal ones the first, is the winner's; copies without an opinion vote for nobody."""
    chance = np.random.default_rng(classes)
    elections = chance.random((400, 7, classes)).argsort(axis=2).argsort(axis=2).astype(np.int16)
    elections[chance.random((400, 7)) < 0.2] = 0
    standings = RULES[rule].standings
    assert standings is not None
    found = standings(torch.from_numpy(elections))
    assert found.shape == (400, classes)
    assert torch.equal(torch.cat([standings(torch.from_numpy(one[None])) for one in elections[:20]]), found[:20])
    assert found.argmax(dim=1).tolist() == RULES[rule].winners(elections).tolist()
    for election, votes, winner in zip(elections, found.tolist(), RULES[rule].winners(elections).tolist(), strict=True):
        expected = count_labels(top_choices(election), classes).tolist()
        if rule == "pairwise":
            above = (election[:, :, None] < election[:, None]).sum(axis=0) + 7 * np.eye(classes, dtype=np.int64)
            expected = above.min(axis=1).tolist()
            if any(2 * above[winner, j] + (winner < j) <= 2 * above[j, winner] for j in range(classes) if j != winner):
                expected[winner] = max(expected) + 1
        if rule == "run-off":
            one, other = sorted(range(classes), key=lambda label: (-expected[label], label))[:2]
            for label, rival in ((one, other), (other, one)):
                expected[label] = int((election[:, label] < election[:, rival]).sum())
        assert votes == expected
