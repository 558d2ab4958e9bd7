"""Votes by pairs: counted on the device as a plain loop counts them, certified, predicted, recorded and reported."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import sparsecert as sc
from sparsecert.bounds import corrected_alpha, predicted_by_pairs
from sparsecert.certificates import CERTIFICATES, certify_anytime
from sparsecert.counts import Counts, Tally
from sparsecert.encodings import NullChannels
from sparsecert.errors import InputError
from sparsecert.procedures.sequential import strongest_rivals
from sparsecert.procedures.stopping import clear
from sparsecert.schemes import ESTIMATION, PREDICTION, SELECTION, Uniform
from sparsecert.votes.copies import Copies
from sparsecert.votes.pairs import MOST_TABLED, PassRows, add_above, add_pairs
from tests.reference import Reference

SCHEME = Uniform(12, 4)
pytestmark = pytest.mark.filterwarnings("ignore:.* gave scores that are not finite")


class Rounded(nn.Module):
    """A linear classifier with few different scores, so that many are equal; some are not finite."""

    def __init__(self, classes: int = 4, spoilt: bool = True) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(3)
            self.linear, self.spoilt = nn.Linear(24, classes).double(), spoilt

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = x.flatten(1).double()
        scores = (2 * self.linear(flat)).round()
        if self.spoilt:
            odd = (flat[:, :12].sum(dim=1) * 1e4).floor() % 7 == 0
            scores[odd, 1] = float("nan")
        return scores


def _inputs(count: int = 5) -> torch.Tensor:
    return torch.rand(count, 1, 3, 4, generator=torch.Generator().manual_seed(1))


def _scores(model: nn.Module, inputs: torch.Tensor, row: int, example: int, draw: int, seed: int) -> list[float]:
    mask = SCHEME.masks(seed, [example], [draw])[0]
    with torch.no_grad():
        found: list[float] = model(NullChannels()(inputs[row : row + 1], mask))[0].tolist()
    return found


def _slowly(
    model: nn.Module, inputs: torch.Tensor, examples: list[int], draws: range, seed: int = 7
) -> list[tuple[list[int], int, list[list[int]]]]:
    """Of each input its votes, its invalid copies, and for each pair of classes how often one ranks above the other."""
    found = []
    for row, example in enumerate(examples):
        classes = len(_scores(model, inputs, row, example, draws.start, seed))
        votes, invalid, pairs = [0] * classes, 0, [[0] * classes for _ in range(classes)]
        for draw in draws:
            scores = _scores(model, inputs, row, example, draw, seed)
            if not all(map(math.isfinite, scores)):
                invalid += 1
                continue
            votes[scores.index(max(scores))] += 1
            for one in range(classes):
                for other in range(classes):
                    above = scores[one] > scores[other] or (scores[one] == scores[other] and one <= other)
                    pairs[one][other] += above
        found.append((votes, invalid, pairs))
    return found


@pytest.mark.parametrize("rows", [1, 3, 7, 40, 64, 10_000, None])
@pytest.mark.parametrize("n", [1, 33])
def test_counts_by_pairs_are_those_of_a_plain_loop(rows: int | None, n: int) -> None:
    model, inputs, examples = Rounded(), _inputs(), [4, 0, 17, 3, 99]
    voter = Reference(model, SCHEME, NullChannels()).voter(inputs[:1], rows)
    draws = range(ESTIMATION, ESTIMATION + n)
    expected = _slowly(model, inputs, examples, draws)
    copies = Copies(voter, inputs, examples, seed=7)
    selected = copies.begin_selection(ESTIMATION, 0, n)
    labels = selected.labels()
    votes, pairs = selected.fetch()
    assert pairs is not None
    assert pairs.tolist() == [table for *_, table in expected]
    assert [*zip(votes.votes.tolist(), votes.invalid.tolist(), strict=True)] == [(v, i) for v, i, _ in expected]
    assert n == 1 or votes.invalid.sum() > 0
    chosen = votes.choosing_by(pairs)
    smallest = [[min(row) for row in table] for *_, table in expected]
    assert labels.tolist() == chosen.labels.tolist() == [each.index(max(each)) for each in smallest]
    given = torch.tensor([0, 1, 2, 3, 0])
    counts = copies.comparing(given).begin_count(ESTIMATION, 0, n)()
    assert counts.above is not None
    assert counts.above.dtype == np.int64
    assert counts.above.tolist() == [table[label] for label, (*_, table) in zip(given.tolist(), expected, strict=True)]
    plain = copies.begin_count(ESTIMATION, 0, n)()
    assert plain.above is None
    for one in (plain, counts):
        assert (one.votes == votes.votes).all()
        assert (one.invalid == votes.invalid).all()


def test_padding_does_not_count_and_counts_add_up_over_passes() -> None:
    scores = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 0.0]])
    above = torch.zeros(3, 2, dtype=torch.int64)
    valid = torch.ones(4, dtype=torch.bool)
    add_above(scores, valid, torch.zeros(4, dtype=torch.int64), PassRows(1, 3, 2), above)  # copies 1, 2, 3 of 2 each
    assert above.tolist() == [[1, 1], [2, 1], [0, 0]]
    add_above(scores, valid, torch.zeros(4, dtype=torch.int64), PassRows(4, 2, 2), above)
    assert above.tolist() == [[1, 1], [2, 1], [2, 1]]


@pytest.mark.parametrize("at_once", [1, 3 * 4 * 9, 10**9])
def test_pairs_are_counted_some_labels_at_once(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One, three, or all four of them; the passes begin and end within an input's copies."""
    scores = torch.randint(0, 3, (9, 4), generator=torch.Generator().manual_seed(0)).float()
    scores[4, 2] = float("nan")
    monkeypatch.setattr("sparsecert.votes.pairs.MOST_COMPARED", at_once)
    found = torch.ones(3, 4, 4, dtype=torch.int64)
    add_pairs(scores, scores.isfinite().all(dim=1), PassRows(3, 8, 4), found)
    for row, one, other in product(range(3), range(4), range(4)):
        copies = [scores[copy - 3].tolist() for copy in range(3, 11) if copy // 4 == row and copy != 7]
        ranked = [own[one] > own[other] or (own[one] == own[other] and one <= other) for own in copies]
        assert found[row, one, other] == 1 + sum(ranked)


@pytest.mark.parametrize("classes", [MOST_TABLED, MOST_TABLED + 1])
def test_with_many_classes_the_one_with_most_votes_is_chosen(classes: int) -> None:
    model, inputs, examples = Rounded(classes), _inputs(2), [0, 1]
    g = sc.Smoothed(model, SCHEME, NullChannels())
    found = g.certify(inputs, sc.Fixed(20, 30, "pairwise"), seed=7)
    assert found.selection is not None
    expected = _slowly(model, inputs, examples, range(ESTIMATION, ESTIMATION + 30))
    assert (found.selection.above is None) == (classes > MOST_TABLED)
    if classes > MOST_TABLED:
        assert found.selected.tolist() == found.selection.votes.argmax(axis=1).tolist()
    assert found.estimation.above is not None
    tables = [table[label] for label, (*_, table) in zip(found.selected.tolist(), expected, strict=True)]
    assert found.estimation.above.tolist() == tables
    stopped = g.certify(inputs, sc.Sequential(400, 50, bound="pairwise"), seed=7)
    assert stopped.selection is not None
    for row, certificate in enumerate(stopped):
        votes = stopped.selection[row], stopped.estimation[row]
        assert certificate == certify_anytime(*votes, SCHEME, 0.05, "pairwise", 350)


def test_other_bounds_of_the_same_run_and_their_own_runs_take_the_same_votes() -> None:
    g, inputs = sc.Smoothed(Rounded(), SCHEME, NullChannels(), rows=37), _inputs()
    by_pairs, two = (g.certify(inputs, sc.Fixed(30, 200, bound), seed=5) for bound in ("pairwise", "two-sided"))
    assert by_pairs.selection is not None
    assert two.selection is not None
    for one, other in ((by_pairs.selection, two.selection), (by_pairs.estimation, two.estimation)):
        assert (one.votes == other.votes).all()
        assert (one.invalid == other.invalid).all()
    assert two.selection.chosen is two.selection.above is two.estimation.above is None
    for row in range(5):
        votes = by_pairs.selection[row], by_pairs.estimation[row]
        label = by_pairs.selected[row]
        found = {bound: method.certify(*votes, SCHEME, 0.05) for bound, method in CERTIFICATES.items()}
        assert {c.interval.label for c in found.values()} == {label}
        radii = {bound: -1 if c.radius is None else c.radius for bound, c in found.items()}
        assert radii["pairwise"] >= radii["one-sided"]
        assert by_pairs[row] == found["pairwise"]


@pytest.mark.parametrize("n", [2, 9, 10, 237])
def test_a_tenth_of_a_predictions_copies_choose_and_the_others_test(n: int) -> None:
    model, inputs = Rounded(), _inputs()
    found = sc.Smoothed(model, SCHEME, NullChannels(), rows=64).predict(inputs, sc.Fixed(n=n, bound="pairwise"), seed=7)
    tenth = max(1, n // 10)
    choosing = _slowly(model, inputs, [*range(5)], range(PREDICTION, PREDICTION + tenth))
    testing = _slowly(model, inputs, [*range(5)], range(PREDICTION + tenth, PREDICTION + n))
    level = corrected_alpha(0.05, SCHEME, n - tenth)
    for row, ((votes, _, pairs), (tested, invalid, table)) in enumerate(zip(choosing, testing, strict=True)):
        smallest = [min(each) for each in pairs]
        label = smallest.index(max(smallest))
        tally = Tally(tuple(tested), invalid, tuple(table[label]))
        assert found.answers[row] == predicted_by_pairs(Tally(tuple(votes), chosen=label), tally, level)
        assert found.counts[row].tolist() == [a + b for a, b in zip(votes, tested, strict=True)]
    assert (found.counts.sum(axis=1) + found.invalid == n).all()
    assert n < 100 or {*found.answers} - {None}


def test_one_copy_cannot_choose_and_test() -> None:
    with pytest.raises(InputError, match="n must be at least 2 to predict by pairs"):
        sc.Smoothed(Rounded(), SCHEME, NullChannels()).predict(_inputs(), sc.Fixed(n=1, bound="pairwise"))


# --- sequential


@pytest.mark.parametrize("at_least", [None, 0, 1])
def test_sequential_votes_are_those_of_their_draws_and_certify_at_a_stopping_time(at_least: int | None) -> None:
    model, inputs = Rounded(), _inputs(12)
    procedure = sc.Sequential(900, 100, at_least=at_least, bound="pairwise")
    found = sc.Smoothed(model, SCHEME, NullChannels(), rows=64).certify(inputs, procedure, seed=7, alpha=0.2)
    assert found.selection is not None
    for row, certificate in enumerate(found):
        selection, votes = found.selection[row], found.estimation[row]
        for tally, purpose in ((selection, SELECTION), (votes, ESTIMATION)) if row < 2 else ():
            draws = range(purpose, purpose + tally.total)
            ((counts, invalid, table),) = _slowly(model, inputs[row : row + 1], [row], draws)
            expected = Tally(tuple(counts), invalid, tuple(table[selection.leader()]), tally.chosen)
            assert tally == expected
        assert certificate == certify_anytime(selection, votes, SCHEME, 0.2, "pairwise", 800)
        assert found.answers[row] in ((None,) if at_least is None else ("yes", "no", "undecided"))
    assert at_least is not None or len({*found.samples.tolist()}) > 1


def test_a_choice_is_clear_when_its_smallest_count_is() -> None:
    above = np.array([[32, 25, 30], [32, 24, 30], [32, 32, 8]])
    counts = Counts(np.array([[20, 7, 5], [20, 8, 4], [8, 0, 24]]), np.zeros(3, np.int64), above, np.zeros(3, np.int64))
    assert clear(counts, np.arange(3)).tolist() == [True, False, False]
    assert strongest_rivals(counts).tolist() == [1, 1, 2]
    assert strongest_rivals(Counts(counts.votes, counts.invalid)).tolist() == [1, 1, 0]


@pytest.mark.parametrize("q", [0.55, 0.7, 0.8])
def test_no_is_seldom_said_of_what_infinitely_many_votes_would_certify(q: float) -> None:
    """Two rivals, each with copies of its own; the radius asked for is the largest that q truly gives, or one more."""
    scheme, chance, runs, alpha = Uniform(60, 3), np.random.default_rng(2), 400, 0.2
    true = int(np.searchsorted([float(scheme.delta(rho)) for rho in range(20)], q - 0.5)) - 1
    said = {true: 0, true + 1: 0}
    for asked in said:
        rule = sc.Sequential(1_500, 100, at_least=asked, bound="pairwise")
        votes = _Ranked([q, 1 - q, 1 - q], chance, scheme, runs)
        found = _finished(rule, votes, alpha)
        said[asked] = found.answers.count("no")
    assert said[true] <= alpha * runs
    assert q == 0.55 or said[true + 1] > said[true]


class _Ranked:
    """In the place of a voter: copies that rank class 0 above both rivals, or one of them above it."""

    device, classes = torch.device("cpu"), 3

    def __init__(self, shares: list[float], chance: np.random.Generator, scheme: Uniform, inputs: int) -> None:
        q, *_ = shares
        self.shares, self.chance, self.scheme, self.inputs = [2 * q - 1, 1 - q, 1 - q], chance, scheme, inputs

    def begin_count(self, copies: Copies, draws: range) -> Any:
        votes = self.chance.multinomial(len(draws), self.shares, size=len(copies))
        total = np.full(len(votes), len(draws))
        above = np.stack((total, total - votes[:, 1], total - votes[:, 2]), axis=1)
        return lambda: Counts(votes, np.zeros(len(votes), np.int64), above)

    def begin_selection(self, copies: Copies, draws: range) -> Any:
        counts = self.begin_count(copies, draws)()
        pairs = np.zeros((len(counts), 3, 3), dtype=np.int64)
        pairs[:, 0] = counts.above

        class Selected:
            def fetch(self) -> tuple[Counts, Any]:
                return Counts(counts.votes, counts.invalid), pairs

        return Selected()


def _finished(procedure: sc.Sequential, voter: Any, alpha: float) -> Any:
    from sparsecert.procedures.pipelining import finish

    return finish(procedure.certify(Copies(voter, torch.zeros(voter.inputs, 1), range(voter.inputs)), alpha))
