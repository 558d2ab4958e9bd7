"""Sequential sampling: its settings, and its certificates from real masks and models."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sparsecert.certificates import CERTIFICATES, certify_anytime
from sparsecert.certificates.anytime import gap_at
from sparsecert.errors import InputError
from sparsecert.procedures import Fixed
from sparsecert.procedures.pipelining import Steps, finish, interleave
from sparsecert.procedures.sequential import Sequential
from sparsecert.schemes import ESTIMATION, SELECTION, Scheme, Uniform
from sparsecert.smoothed import Smoothed
from sparsecert.votes.copies import Copies
from tests.contracts import ANYTIME_NAMES, SCHEMES
from tests.helpers import Digits, acceptable

SMALL, MNIST = Uniform(12, 2), Uniform(784, 45)


def test_defaults_depend_on_the_question() -> None:
    assert Sequential() == Sequential(max_samples=17_000, n0=1_000, tolerance=0.01, at_least=None)
    assert Sequential(at_least=8) == Sequential(max_samples=6_000, n0=1_000, tolerance=0.01, at_least=8)
    assert Sequential(max_samples=500, n0=100).most == 400


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n0": 0}, r"n0 must be a whole number between 1 and 2\*\*40 - 1, got 0"),
        ({"n0": 1.5}, "n0 must be a whole number between 1 and .*, got 1.5"),
        ({"n0": True}, "n0 must be a whole number between 1 and .*, got True"),
        ({"max_samples": 0}, "max_samples must be a whole number between 1 and .*, got 0"),
        ({"max_samples": 1 << 40}, r"max_samples must be a whole number between 1 and 2\*\*40 - 1, got 1099511627776"),
        ({"max_samples": "many"}, "max_samples must be a whole number between 1 and .*, got 'many'"),
        ({"max_samples": 1_000}, r"max_samples must be above n0 \(1000\), which choose the class, got 1000"),
        ({"n0": 17_000}, r"max_samples must be above n0 \(17000\), which choose the class, got 17000"),
        ({"at_least": 3, "n0": 6_000}, r"max_samples must be above n0 \(6000\), .* got 6000"),
        ({"tolerance": -0.1}, "tolerance must be 0 or more, in radius per 1,000 samples, got -0.1"),
        ({"tolerance": float("nan")}, "tolerance must be 0 or more, .* got nan"),
        ({"tolerance": float("inf")}, "tolerance must be 0 or more, .* got inf"),
        ({"tolerance": "0.1"}, "tolerance must be 0 or more, .* got '0.1'"),
        ({"tolerance": True}, "tolerance must be 0 or more, .* got True"),
        ({"at_least": -1}, r"at_least must be a whole number between 0 and 2\*\*31 - 1, got -1"),
        ({"at_least": 2.0}, "at_least must be a whole number between 0 and .*, got 2.0"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as refusal:
        Sequential(**settings)
    assert "\n" not in str(refusal.value)


def test_a_bound_without_a_proof_for_any_stop_is_refused_before_any_vote(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = replace(CERTIFICATES["two-sided"], name="lacking", compared=None)
    monkeypatch.setattr(CERTIFICATES, "_things", {**CERTIFICATES, "lacking": lacking})
    with pytest.raises(InputError, match="bound lacking has no proof for sequential sampling"):
        Sequential(bound="lacking").check(MNIST, 0.05, 0)
    Fixed(bound="lacking").check(MNIST, 0.05, 0)


def test_a_radius_or_level_that_the_scheme_cannot_give_is_refused() -> None:
    Sequential(at_least=11).check(MNIST, 0.05, 0)
    with pytest.raises(InputError, match=r"at_least must be at most 11, the largest radius of Uniform\(.*\), got 12"):
        Sequential(at_least=12).check(MNIST, 0.05, 0)
    Sequential(at_least=0).check(Uniform(9, 9), 0.05, 0)
    with pytest.raises(InputError, match="at_least must be at most 0"):
        Sequential(at_least=1).check(Uniform(9, 9), 0.05, 0)
    few, many = (Sequential(max_samples=1_000 + votes) for votes in (100, 10_000))
    alpha = float(1_000 * MNIST.nonuniformity)
    few.check(MNIST, alpha, 0)
    with pytest.raises(InputError, match="too small for 10000 draws"):
        many.check(MNIST, alpha, 0)


@pytest.mark.parametrize(
    "sampling",
    [
        Sequential(),
        Sequential(max_samples=np.int64(900), n0=np.int32(10), tolerance=np.float32(0.5), at_least=np.int64(3)),
        Sequential(tolerance=0),
    ],
)
def test_settings_are_plain_json_and_come_back(sampling: Sequential) -> None:
    assert Sequential(**json.loads(json.dumps(sampling.config()))) == sampling


# --- masks and models


def _pairs() -> torch.Tensor:
    """Which class a copy that shows units i and j gets: 40, 18 and 8 of the 66 pairs."""
    table = torch.zeros(12, 12, dtype=torch.int64)
    pairs = list(combinations(range(12), 2))
    for number, (i, j) in enumerate(pairs):
        table[i, j] = table[j, i] = 0 if number * 25 % 66 < 40 else 1 if number * 25 % 66 < 58 else 2
    return table


def _by_pair(copies: torch.Tensor) -> torch.Tensor:
    shown = (copies.sum(dim=1) > 0).float()
    numbers = torch.arange(12.0)
    first, last = (shown * (numbers + 1)).amax(dim=1) - 1, 11 - (shown * (12 - numbers)).amax(dim=1) + 1
    return torch.nn.functional.one_hot(_pairs()[first.long(), last.long()], 3).float()


def _alike(inputs: int) -> torch.Tensor:
    return torch.full((inputs, 12), 0.5)


@pytest.mark.parametrize("bound", ANYTIME_NAMES)
def test_certificates_from_real_masks_are_wrong_within_alpha_also_at_another_alpha_afterwards(bound: str) -> None:
    """p_A = 40/66 and p_B = 18/66 by enumeration of the 66 masks: the lead of 22/66 is 2 delta(1), so 1 is wrong.

    Without tolerance the votes are never stopped for the certificate's good. What they give at a smaller alpha, as a
    report draws it, is compared with that.
    """
    table = _pairs()
    shares = [sum(int(table[i, j]) == c for i, j in combinations(range(12), 2)) for c in range(3)]
    assert shares == [40, 18, 8]
    alpha, runs, sampling = 0.3, 1_500, Sequential(max_samples=420, n0=20, tolerance=0.0, bound=bound)
    c = Smoothed(_by_pair, SMALL).certify(_alike(runs), sampling, alpha=alpha)
    rivals = [66 - votes if bound == "one-sided" else 18 if votes == 40 else 40 for votes in shares]
    leads = [Fraction(votes - rival, 66) for votes, rival in zip(shares, rivals, strict=True)]
    for level in (alpha, alpha / 3):
        errors = 0
        for row, certificate in enumerate(c):
            votes = c.selection[row], c.estimation[row]
            again = certify_anytime(*votes, SMALL, level, bound, sampling.most)
            assert level != alpha or again == certificate
            errors += again.radius is not None and leads[again.interval.label] <= gap_at(SMALL, again.radius)
        assert acceptable(errors, runs, level)
        assert errors > 0.1 * level * runs or bound == "one-sided"


def test_an_inputs_votes_are_those_of_its_own_first_masks() -> None:
    """Counted again in one go: the stages neither skip nor repeat a mask, and the neighbours do not matter."""
    g = Smoothed(_by_pair, SMALL)
    c = g.certify(_alike(15), procedure=Sequential(max_samples=700, n0=60), seed=5)
    for row in range(15):
        for purpose, counts in ((SELECTION, c.selection), (ESTIMATION, c.estimation)):
            again = g.count(_alike(1), purpose, counts[row].total, seed=5, examples=[row])
            assert again[0] == counts[row]
        alone = g.certify(_alike(1), procedure=Sequential(max_samples=700, n0=60), seed=5, examples=[row])
        assert alone[0] == c[row]
        assert alone.samples[0] == c.samples[row]
    assert len({*c.samples.tolist()}) > 3


def test_pipelined_groups_give_what_each_gives_alone() -> None:
    voter, sampling = Smoothed(_by_pair, SMALL).voter(_alike(1)), Sequential(max_samples=700, n0=60)

    def works() -> list[Steps[Any]]:
        return [
            sampling.certify(Copies(voter, _alike(size), range(100 * size, 101 * size)), 0.05)
            for size in (4, 1, 7, 3, 2)
        ]

    alone = {len(c): c for c in map(finish, works())}
    together = list(interleave(works(), 3))
    assert sorted(map(len, together)) == [1, 2, 3, 4, 7]
    for c in together:
        assert c.certificates == alone[len(c)].certificates
        assert c.samples.tolist() == alone[len(c)].samples.tolist()
        assert c.counts.tolist() == alone[len(c)].counts.tolist()


def test_pipelined_work_starts_in_order_with_so_many_in_flight() -> None:
    under_way: set[int] = set()
    most, started = 0, []

    def work(number: int, steps: int) -> Steps[int]:
        nonlocal most
        started.append(number)
        under_way.add(number)
        most = max(most, len(under_way))
        for _ in range(steps):
            yield
        under_way.remove(number)
        return number

    done = list(interleave((work(number, steps) for number, steps in enumerate([3, 0, 5, 1, 1, 2])), 2))
    assert started == [0, 1, 2, 3, 4, 5]
    assert sorted(done) == started
    assert most == 2
    assert list(interleave(iter(()), 2)) == []
    assert [list(interleave((work(number, 2) for number in range(3)), 1))] == [[0, 1, 2]]


@pytest.mark.parametrize("bound", ANYTIME_NAMES)
def test_certify_end_to_end(trained: Path, digits: Digits, bound: str) -> None:
    g, sampling, reported = Smoothed.load(trained), Sequential(max_samples=900, n0=100, bound=bound), []
    c = g.certify(digits[0], sampling, alpha=0.1, seed=2, on_progress=lambda inputs, copies: reported.append(copies))
    assert len(c) == 20
    assert (c.procedure, c.alpha) == (sampling, 0.1)
    assert c.answers == (None,) * 20
    assert sum(reported) == c.samples.sum()
    assert (c.samples <= 900).all()
    assert (c.samples >= c.selection.votes.sum(axis=1) + c.counts.sum(axis=1)).all()
    assert len({*c.samples.tolist()}) > 5
    assert np.isnan(c.p_lower).all()
    assert np.isnan(c.p_upper).all()
    for row in range(20):
        assert c[row] == certify_anytime(c.selection[row], c.estimation[row], g.scheme, 0.1, bound, 800)
    assert (c.labels[~c.abstained] == digits[1].numpy()[~c.abstained]).mean() > 0.8
    assert c.radii.max() > 0


def test_certify_answers_the_question(trained: Path, digits: Digits) -> None:
    g = Smoothed.load(trained)
    c = g.certify(digits[0], procedure=Sequential(max_samples=900, n0=100, at_least=1))
    assert {*c.answers} >= {"yes", "no"}
    for answer, radius in zip(c.answers, c.radii, strict=True):
        assert (answer == "yes") == (radius >= 1)
    with pytest.raises(InputError, match="at_least must be at most 2, the largest radius of"):
        g.certify(digits[0], procedure=Sequential(at_least=3))
    with pytest.raises(InputError, match="bound must be one of one-sided, pairwise, two-sided, got 'both'"):
        g.certify(digits[0], procedure=Sequential(bound="both"))
    with pytest.raises(InputError, match="examples must number each of the 20 inputs, got 1"):
        g.certify(digits[0], procedure=Sequential(), examples=[1])


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
@pytest.mark.parametrize("sampling", [Sequential(2, 1), Sequential(60, 1), Sequential(300, 40, 0.0, at_least=0)])
def test_the_smallest_samples_and_schemes(scheme: Scheme, sampling: Sequential) -> None:
    c = Smoothed(lambda x: torch.eye(2)[(x[:, 0, 0] > 0.7).long()], scheme).certify(
        torch.full((3, scheme.units), 0.5), procedure=sampling
    )
    assert (c.samples <= sampling.max_samples).all()
    assert (c.radii <= len(scheme.deltas) - 2).all()
    if sampling.most == 1:
        assert c.abstained.all()
    if sampling.at_least == 0:
        assert c.answers == ("yes",) * 3
        assert c.labels.tolist() == [0, 0, 0]


def test_every_copy_that_voted_for_nobody_is_warned_of() -> None:
    """Also those after the look that the certificate is drawn from."""

    def model(copies: torch.Tensor) -> torch.Tensor:
        scores, shown = _by_pair(copies), copies.sum(dim=1) > 0
        scores[shown[:, 3]] = float("nan")
        return scores

    g = Smoothed(model, SMALL)
    with pytest.warns(UserWarning, match="ablated copies gave scores that are not finite") as said:
        c = g.certify(_alike(40), procedure=Sequential(max_samples=500, n0=30))
    invalid = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for row, samples in enumerate(c.samples.tolist()):
            chosen = c.selection[row].total
            for purpose, copies in ((SELECTION, chosen), (ESTIMATION, samples - chosen)):
                invalid += int(g.count(_alike(1), purpose, copies, examples=[row]).invalid[0])
    assert str(said[0].message).startswith(f"{invalid} of {c.samples.sum()} ablated copies")
    assert invalid > c.invalid.sum(), "every invalid copy was before the best look: the test shows nothing"
