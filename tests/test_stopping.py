"""When sequential sampling stops and what it answers, and that neither is wrong more often than it may.

Simulated votes go through the package's own stages; only the model that casts them is replaced by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from sparsecert.bounds import corrected_alpha
from sparsecert.bounds.betting import STAKES
from sparsecert.certificates import certify_anytime
from sparsecert.certificates.anytime import gap_at, stakes_of
from sparsecert.counts import Counts, Tally
from sparsecert.procedures import sequential
from sparsecert.procedures.pipelining import finish
from sparsecert.procedures.sequential import Sequential
from sparsecert.procedures.stopping import StoppingRule, clear, estimation_stages, selection_stages
from sparsecert.results import Certifications
from sparsecert.schemes import ESTIMATION, Scheme, Uniform
from sparsecert.votes.copies import Copies
from tests.contracts import ANYTIME_NAMES
from tests.helpers import acceptable

SMALL, MNIST = Uniform(12, 2), Uniform(784, 45)
RUNS = 2_000


class Chance:
    """Votes at random, in the place of a model: shares[example] of the classes, and last of the invalid copies."""

    device = torch.device("cpu")

    def __init__(self, shares: Sequence[Sequence[float]], seed: int, scheme: Scheme = MNIST) -> None:
        self.scheme = scheme
        p = np.array(shares, dtype=np.float64)
        self.shares, self.classes, self.seed = p / p.sum(axis=1, keepdims=True), p.shape[1] - 1, seed
        self.drawn: dict[int, npt.NDArray[np.int64]] = {}  # by purpose: [example, draw]

    def begin_count(self, copies: Copies, draws: range) -> Callable[[], Counts]:
        """Each vote is a function of its example and draw alone, as with masks."""
        examples = copies.examples
        assert len(copies) == len(examples)
        purpose, first = divmod(draws.start, ESTIMATION)
        votes, kinds = self._votes(purpose, first + len(draws)), self.classes + 1
        votes = votes[list(examples), first : first + len(draws)] + kinds * np.arange(len(examples))[:, None]
        rows = np.bincount(votes.reshape(-1), minlength=kinds * len(examples)).reshape(-1, kinds)
        return lambda: Counts(rows[:, :-1], rows[:, -1])

    def _votes(self, purpose: int, most: int) -> npt.NDArray[np.int64]:
        """The first votes of every example, at least so many: more of them begin with the same."""
        known = self.drawn.get(purpose)
        if known is None or known.shape[1] < most:
            known = np.empty((len(self.shares), max(512, 2 * most)), dtype=np.int64)
            for example, bounds in enumerate(np.cumsum(self.shares, axis=1)[:, :-1]):
                chance = np.random.default_rng([self.seed, example, purpose]).random(known.shape[1])
                known[example] = np.searchsorted(bounds, chance, side="right")
            self.drawn[purpose] = known
        return known


def _stopped(
    shares: Sequence[Sequence[float]],
    sampling: Sequential,
    bound: str = "two-sided",
    alpha: float = 0.05,
    scheme: Scheme = MNIST,
    seed: int = 1,
) -> Certifications:
    inputs: Any = torch.zeros(len(shares), 1)
    voter: Any = Chance(shares, seed, scheme)
    sampling = replace(sampling, bound=bound)
    return finish(sampling.certify(Copies(voter, inputs, range(len(shares))), alpha))


def _lead(lead: float, share: float = 1.0, invalid: float = 0.0) -> list[float]:
    """Two classes that have `share` together and are `lead` apart, and a third one."""
    return [(share + lead) / 2, (share - lead) / 2, 1 - share - invalid, invalid]


def _radius(radius: int | None) -> int:
    return -1 if radius is None else radius


# --- when votes are looked at


@pytest.mark.parametrize("most", [1, 2, 31, 32, 33, 95, 96, 97, 105, 106, 1_000, 16_000, 10**6])
def test_looks_grow_from_few_votes_to_the_most(most: int) -> None:
    for schedule, first, growth in ((selection_stages(most), 32, 2.0), (estimation_stages(most), 96, 1.1)):
        assert schedule[0] == min(first, most)
        assert schedule[-1] == most
        assert all(a < b <= growth * a + 1 for a, b in pairwise(schedule))
        assert all(b >= growth * a for a, b in pairwise(schedule[:-1]))


def test_a_leader_is_clear_at_three_standard_deviations_over_rival_and_invalid_votes() -> None:
    """Under a tie the difference of two counts has their sum as its variance."""
    votes = [(20, 5, 0), (21, 4, 0), (5, 20, 0), (4, 21, 0), (0, 9, 0), (0, 8, 0), (30, 30, 0), (20, 0, 0), (20, 0, 0)]
    counts = Counts(np.array(votes), np.array([0] * 7 + [4, 8]))
    expected = [True, True, True, True, True, False, False, True, False]
    assert clear(counts, np.arange(9)).tolist() == expected
    assert clear(counts, np.array([6, 0])).tolist() == [False, True]


# --- when votes end


def test_clear_inputs_leave_early_and_close_ones_go_on() -> None:
    """Unanimous; half-way between two radii; not far beyond a radius, where it takes many votes to reach it."""
    eight, nine = (float(gap_at(MNIST, rho)) for rho in (8, 9))
    shares = [_lead(1.0)] * 30 + [_lead((eight + nine) / 2)] * 30 + [_lead(eight + 0.02)] * 30
    taken = _stopped(shares, Sequential()).samples.reshape(3, 30)
    assert taken[0].max() < taken[1].mean() / 3
    assert taken[1].mean() < taken[2].mean() / 1.5
    assert taken.max() <= 17_000


def _ended(rule: StoppingRule, row: int, total: int) -> str:
    if rule.best[row] == len(MNIST.deltas) - 2:
        return "largest"
    return "refuted" if rule.refuted[row] else "budget" if total == rule.sampling.most else "given up"


def _watched(tolerance: float, bound: str, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[int]]:
    """How the votes of assorted inputs ended and how many they were, by the Watch that decided it."""
    watches: list[StoppingRule] = []

    class Kept(StoppingRule):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            watches.append(self)

    monkeypatch.setattr(sequential, "StoppingRule", Kept)
    chance = np.random.default_rng(4)
    shares = [_lead(lead, share) for lead, share in zip(chance.random(120), chance.uniform(0.9, 1, 120), strict=True)]
    shares = [p if min(p) >= 0 else _lead(1.0) for p in shares]
    stopped = _stopped(shares, Sequential(max_samples=4_100, n0=100, tolerance=tolerance), bound)
    votes = [int(samples) - stopped.selection[row].total for row, samples in enumerate(stopped.samples)]
    return [_ended(watches[0], row, total) for row, total in enumerate(votes)], votes


@pytest.mark.parametrize("bound", ANYTIME_NAMES)
def test_without_tolerance_votes_go_on_until_more_cannot_help(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the radius is the largest there is, the next one is refuted, or the budget is spent."""
    ended, exact = _watched(0.0, bound, monkeypatch)
    assert {*ended} == {"largest", "refuted", "budget"}
    ended, some = _watched(0.01, bound, monkeypatch)
    assert "given up" in ended
    _, few = _watched(1.0, bound, monkeypatch)
    assert all(a >= b >= c for a, b, c in zip(exact, some, few, strict=True))
    assert sum(exact) > sum(some) > sum(few)


def _rate(rule: StoppingRule, leader: int, rival: int, total: int, chance: np.random.Generator) -> float:
    """The most radius per 1,000 votes that a later moment gains, by simulation of the votes until then.

    The probabilities are drawn from what the votes so far leave open, and the next three radii are looked for.
    """
    best, stake, rates = int(rule.best[0]), float(rule.stakes[0]), []
    seen = np.array([leader, rival, total - leader - rival])
    factors = [
        np.log([1 + stake * (1 - gap), 1 - stake * (1 + gap), 1 - stake * gap])
        for gap in rule.gaps[best + 1 : best + 4]
    ]
    for moment in np.geomspace(1.1 * total, rule.sampling.most, 6).astype(int):
        votes = seen + chance.multinomial(moment - total, chance.dirichlet(seen + 0.5, size=20_000))
        gained = sum((votes @ each >= rule.enough).mean() for each in factors)
        rates.append(1_000 * float(gained) / (moment - total))
    return max(rates)


def test_votes_go_on_while_a_simulation_of_them_gains_enough_radius() -> None:
    """The rule's normal approximation against chance itself, wherever that says clearly more or less than asked."""
    chance, sampling, decided = np.random.default_rng(8), Sequential(), []
    for total in (200, 1_000, 6_000, 12_000):
        for share in np.linspace(0.55, 0.97, 22):
            leader, others = round(total * share), round(total * 0.02)
            rule = StoppingRule(sampling, Counts.of(Tally((leader, total - leader - others, others))), MNIST, 0.05)
            both = np.array([leader]), np.array([total - leader - others])
            goes_on = bool(rule.update(np.array([0]), both, both, total)[0])
            rate = _rate(rule, leader, total - leader - others, total, chance) / sampling.tolerance
            if not rule.refuted[0] and not 0.4 < rate < 2.5:
                assert goes_on == (rate > 1), (total, share, rate)
                decided.append(goes_on)
    assert min(decided.count(True), decided.count(False)) > 10


@pytest.mark.filterwarnings("ignore:.* gave scores that are not finite")
@pytest.mark.parametrize("bound", ANYTIME_NAMES)
def test_the_votes_kept_are_those_of_the_stage_with_the_largest_radius(bound: str) -> None:
    """Replayed from the same votes, stage by stage, with the exact certificate instead of floating point."""
    sampling = Sequential(max_samples=1_300, n0=100, tolerance=0.0)
    shares = [_lead(lead, 0.95, invalid) for lead in np.linspace(0.05, 0.95, 30) for invalid in (0.0, 0.05)]
    stopped, chance, earlier = _stopped(shares, sampling, bound, seed=3), Chance(shares, seed=3), 0
    for row, certificate in enumerate(stopped.certificates):
        votes = int(stopped.samples[row]) - stopped.selection[row].total
        seen = [
            Copies(chance, torch.zeros(1), [row]).begin_count(ESTIMATION, 0, total)()[0]  # type: ignore[arg-type]
            for total in estimation_stages(sampling.most)
            if total <= votes
        ]
        radii = [
            _radius(certify_anytime(stopped.selection[row], tally, MNIST, 0.05, bound, sampling.most).radius)
            for tally in seen
        ]
        assert _radius(certificate.radius) == max(radii)
        kept = radii.index(max(radii)) if max(radii) >= 0 else len(seen) - 1
        assert stopped.estimation[row] == seen[kept]
        earlier += radii[-1] < max(radii)
    assert earlier, "no radius was ever lost again: the best look was always the last"


# --- what is answered


@pytest.mark.parametrize("bound", ANYTIME_NAMES)
def test_the_question_is_answered_yes_no_or_undecided(bound: str) -> None:
    asked, budget = 4, 900
    gap = float(gap_at(MNIST, asked))
    shares = [_lead(gap + 0.2)] * 20 + [_lead(gap - 0.2)] * 20 + [_lead(gap)] * 20 + [_lead(-0.9)] * 20
    stopped = _stopped(shares, Sequential(max_samples=budget, n0=100, at_least=asked), bound)
    answers = np.array(stopped.answers).reshape(4, 20)
    assert {*answers[0]} == {"yes"}
    assert {*answers[1]} == {"no"}
    assert "undecided" in answers[2]
    assert {*answers[3]} == {"yes"}  # the other class leads, and is the one that was chosen
    for answer, certificate, samples in zip(stopped.answers, stopped.certificates, stopped.samples, strict=True):
        assert (answer == "yes") == (_radius(certificate.radius) >= asked)
        assert answer != "undecided" or samples > budget - 100
        assert samples <= budget
    assert stopped.samples.reshape(4, 20)[:2].mean() < stopped.samples.reshape(4, 20)[2].mean() / 2


def test_radius_0_and_the_largest_can_be_asked_for() -> None:
    for asked, sure in ((0, 0.6), (11, 1.0)):
        answers = _stopped([_lead(sure), _lead(0.0)], Sequential(at_least=asked, max_samples=3_000)).answers
        assert answers[0] == "yes"
        assert answers[1] in ("no", "undecided")
    assert _stopped([_lead(0.5)], Sequential()).answers == (None,)


ASKED = {
    "two classes": lambda lead: _lead(lead),
    "a third class": lambda lead: _lead(lead, 0.85),
    "invalid copies": lambda lead: [*_lead(lead + 0.1, 0.9)[:2], 0.0, 0.1],
    "twenty rivals": lambda lead: [(1 - lead) / 21 + lead, *[(1 - lead) / 21] * 20, 0.0],
}


@pytest.mark.filterwarnings("ignore:.* gave scores that are not finite")
@pytest.mark.parametrize(("world", "bound"), [*((world, "two-sided") for world in ASKED), ("two classes", "one-sided")])
@pytest.mark.parametrize(("beyond", "wrong"), [(1e-6, "no"), (-1e-12, "yes")])
def test_answers_looked_for_after_every_vote_are_wrong_within_alpha(
    world: str, bound: str, beyond: float, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lead is the one asked for, or a millionth more: "yes" would be wrong there, "no" here."""
    alpha, asked = 0.2, 1
    shares = ASKED[world](float(gap_at(SMALL, asked)) + beyond)
    sampling = Sequential(max_samples=40 + 240, n0=40, at_least=asked)
    monkeypatch.setattr(sequential, "estimation_stages", lambda most: range(1, most + 1))
    stopped = _stopped([shares] * RUNS, sampling, bound, alpha, SMALL)
    leads = [certificate.interval.label == 0 for certificate in stopped.certificates]
    errors = sum(answer == wrong and led for answer, led in zip(stopped.answers, leads, strict=True))
    assert sum(leads) > 0.9 * RUNS
    assert acceptable(errors, RUNS, alpha)
    if world == "two classes":
        assert errors > 0.4 * alpha * RUNS, "wrong answers hardly ever come: the test could not have found too many"


@pytest.mark.parametrize("bound", ANYTIME_NAMES)
def test_no_is_said_only_where_the_exact_wealth_of_the_opposite_bet_reaches_one_over_alpha(bound: str) -> None:
    chance, said, asked = np.random.default_rng(6), 0, 3
    sampling = Sequential(max_samples=5_000, n0=100, at_least=asked)
    gap, level = gap_at(MNIST, asked), corrected_alpha(0.05, MNIST, sampling.most)
    for _ in range(300):
        selection, total = Tally((60, 35, 5)), int(chance.integers(100, 700))
        leader = int(total * chance.uniform(0.35, 0.7))
        second = total - leader if bound == "one-sided" else int((total - leader) * chance.uniform(0.7, 1))
        rule = StoppingRule(replace(sampling, bound=bound), Counts.of(selection), MNIST, 0.05)
        row, own, others, rival = (np.array([number]) for number in (0, leader, total - leader, second))
        rule.update(row, (own, others), (own, rival), total)
        s = Fraction(stakes_of(Counts.of(selection), bound, sampling.most, level)[0], STAKES)
        exact = (
            (1 + s * (1 + gap)) ** second * (1 - s * (1 - gap)) ** leader * (1 + s * gap) ** (total - leader - second)
        )
        if rule.answer(0, None) == "no":
            assert exact >= 1 / level
            said += 1
        else:
            assert exact <= (1 + Fraction(1, 10**6)) / level
    assert 20 < said < 280
