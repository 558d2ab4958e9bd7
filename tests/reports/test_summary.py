from __future__ import annotations

import json
import random
from dataclasses import replace
from math import comb
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import beta, binomtest

from sparsecert.certificates import CERTIFICATES
from sparsecert.counts import Tally
from sparsecert.errors import InputError
from sparsecert.records import Records, Writer, read
from sparsecert.reports import Summary, summarise
from sparsecert.schemes import Uniform
from tests.contracts import METHOD_NAMES
from tests.helpers import modules_after

from .made import ABSTAINED, AT_0, AT_4, AT_6, AT_12, CHOOSE_0, N0, N, certified, header, predicted


def radius_by_floats(tally: Tally, label: int, alpha: float, bound: str) -> int | None:
    """Corollary 1 or 2 with scipy's Clopper-Pearson in plain floating point, for Uniform(units=100, keep=5)."""
    total, level = tally.total, alpha / 2 if bound == "two-sided" else alpha
    votes = tally.votes[label]
    rival = max(v for c, v in enumerate(tally.votes) if c != label)
    low = beta.ppf(level, votes, total - votes + 1) if votes else 0.0
    high = beta.ppf(1 - level, rival + 1, total - rival) if rival < total else 1.0
    high = min(high, 1 - low) if bound == "two-sided" else 1 - low
    best = None
    for rho in range(96):
        delta = 1 - comb(100 - rho, 5) / comb(100, 5)
        if low - delta > high + delta:
            best = rho
    return best


def random_records(seed: int, count: int = 40) -> Records:
    rng = random.Random(seed)
    votes = []
    for _ in range(count):
        leader = rng.randint(150, N)
        second = rng.randint(0, N - leader)
        votes.append(Tally((leader, second, N - leader - second)))
    return certified(votes, [rng.choice([0, 0, 0, 1, 2]) for _ in votes])


def test_a_run_by_hand() -> None:
    votes = [AT_12, AT_6, AT_4, AT_0, ABSTAINED, ABSTAINED, AT_12, ABSTAINED]
    true = [0, 0, 0, 0, 0, 0, 1, 1]  # the seventh is certified for a wrong class, the eighth wrong and not certified
    s = summarise(certified(votes, true, inputs=10))
    assert (s.certified, s.certified_at_zero, s.wrong_certificates, s.uncertified) == (4, 1, 1, 3)
    assert s.certified_accuracy == (4 / 8, *[3 / 8] * 4, *[2 / 8] * 2, *[1 / 8] * 6)
    assert s.median == 0
    assert s.median_among_certified == 6
    assert s.median_reference == 0
    assert (s.inputs, s.expected_inputs, s.incomplete) == (8, 10, True)
    assert s.accuracy == 4 / 8  # the binomial test cannot tell 205 from 195 either
    assert s.abstained == 3 / 8
    assert s.classified_from == "estimation votes"
    assert s.mean_seconds == 4.0
    assert s.mean_samples == N0 + N
    assert s.invalid_votes == 0
    assert (s.certified_accuracy_at(0), s.certified_accuracy_at(12), s.certified_accuracy_at(13)) == (0.5, 0.125, 0.0)


@pytest.mark.parametrize(
    ("tally", "radius"), [(AT_12, 12), (AT_6, 6), (AT_4, 4), (AT_0, 0), (ABSTAINED, None)], ids=str
)
def test_the_radii_the_made_votes_are_named_after(tally: Tally, radius: int | None) -> None:
    assert radius_by_floats(tally, 0, 0.05, "two-sided") == radius
    s = summarise(certified([tally]))
    assert s.median == radius
    assert len(s.certified_accuracy) == (0 if radius is None else radius + 1)


def test_reference_convention_counts_right_but_not_certified_as_zero() -> None:
    s = summarise(certified([AT_6, ABSTAINED, ABSTAINED, AT_12], [0, 0, 0, 1]))
    assert s.median is None
    assert s.median_reference == 0
    wrong = summarise(certified([AT_6, ABSTAINED, ABSTAINED, AT_12], [0, 1, 1, 1]))
    assert wrong.median_reference is None


def test_nothing_certified_for_the_true_class() -> None:
    s = summarise(certified([AT_12, AT_6], [1, 2]))
    assert s.certified_accuracy == ()
    assert (s.median, s.median_among_certified, s.median_reference) == (None, None, None)
    assert (s.certified, s.wrong_certificates, s.uncertified) == (0, 2, 0)
    assert s.certified_accuracy_at(0) == 0.0


@pytest.mark.parametrize("bound", METHOD_NAMES)
@pytest.mark.parametrize("alpha", [0.05, 0.0001, 0.3])
def test_another_alpha_or_bound_needs_only_the_votes(alpha: float, bound: str) -> None:
    records = random_records(seed=3)
    s = summarise(records, alpha=alpha, bound=bound)
    direct = [
        CERTIFICATES[bound].certify(CHOOSE_0, line.votes, Uniform(100, 5), alpha).radius for line in records.lines
    ]
    assert direct == [radius_by_floats(line.votes, 0, alpha, bound) for line in records.lines]
    right = [r if line.true == 0 else None for r, line in zip(direct, records.lines, strict=True)]
    shares = [sum(r is not None and r >= rho for r in right) / 40 for rho in range(len(s.certified_accuracy) + 1)]
    assert shares == [*s.certified_accuracy, 0.0]
    assert s.certified == sum(r is not None for r in right)
    assert s.uncertified == direct.count(None)
    assert (s.alpha, s.bound, s.certificate) == (alpha, bound, CERTIFICATES[bound].theorem_name)
    assert (s.run_alpha, s.run_bound) == (0.05, "two-sided")
    assert s.recertified == ((alpha, bound) != (0.05, "two-sided"))


@pytest.mark.parametrize("alpha", [0.05, 0.001])
def test_classification_is_the_two_sided_binomial_test(alpha: float) -> None:
    records = random_records(seed=4)
    right = abstained = 0
    for line in records.lines:
        second, first = sorted(line.votes.votes)[-2:]
        if binomtest(first, first + second, 0.5).pvalue > alpha:
            abstained += 1
        else:
            right += line.votes.votes.index(first) == line.true
    s = summarise(records, alpha=alpha)
    assert (s.accuracy, s.abstained) == (right / 40, abstained / 40)
    assert 0 < abstained < 40


def test_invalid_votes_are_counted_and_count_against() -> None:
    s = summarise(certified([Tally((330, 0, 0), invalid=70), AT_6]))
    assert s.invalid_votes == 70
    assert s.certified_accuracy == (1.0,) * 7
    assert s.mean_samples == N0 + N


def test_predictions_give_the_classification() -> None:
    records = certified([AT_12, AT_6, ABSTAINED])
    from_predictions = predicted([AT_12, AT_12, AT_12, ABSTAINED], [0, 0, 1, 0], path="p.jsonl", seed=11)
    s = summarise(records, predictions=from_predictions)
    assert (s.accuracy, s.abstained, s.classified_from) == (0.5, 0.25, "p.jsonl")
    assert (s.classification.inputs, s.classification.n, s.classification.seed) == (4, N, 11)
    own = summarise(records)
    assert (own.accuracy, own.abstained) == (2 / 3, 1 / 3)
    assert own.certified_accuracy == s.certified_accuracy


def test_predictions_are_read_at_the_alpha_of_the_report() -> None:
    close = Tally((222, 178, 0))  # p-value 0.031
    records, predictions = certified([close]), predicted([close], alpha=0.5)
    assert summarise(records, predictions=predictions).accuracy == 1.0
    assert summarise(records, alpha=0.01, predictions=predictions).abstained == 1.0


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"model": {"sha256": "e" * 64}}, "model sha256"),
        ({"scheme": {"kind": "uniform", "units": 100, "keep": 6}}, "scheme"),
        ({"encoding": {"kind": "mean-fill", "mean": [0.5]}}, "encoding"),
        ({"precision": "bf16"}, "precision"),
        ({"data": {**header().run["data"], "fingerprint": "e" * 64}}, "data fingerprint"),
    ],
)
def test_predictions_of_something_else_are_refused(changes: dict[str, Any], named: str) -> None:
    other = predicted([AT_12])
    other = replace(other, header=replace(other.header, run={**other.header.run, **changes}))
    with pytest.raises(InputError, match=f"does not belong to .*its {named} is .*name predictions") as refusal:
        summarise(certified([AT_12]), predictions=other)
    assert "\n" not in str(refusal.value)


def test_predictions_that_are_no_predictions_are_refused() -> None:
    records = certified([AT_12])
    with pytest.raises(InputError, match="holds certify records"):
        summarise(records, predictions=records)
    with pytest.raises(InputError, match="holds predictions itself"):
        summarise(predicted([AT_12]), predictions=predicted([AT_12]))
    with pytest.raises(InputError, match="holds no inputs yet"):
        summarise(records, predictions=predicted([]))


def test_predict_records_have_only_the_classification() -> None:
    s = summarise(predicted([AT_12, ABSTAINED, AT_6, AT_6], [0, 0, 1, 0]))
    assert (s.kind, s.accuracy, s.abstained) == ("predict", 0.5, 0.25)
    assert s.certified_accuracy == ()
    assert s.certified_accuracy_at(0) is None
    assert {s.median, s.median_among_certified, s.median_reference, s.certified, s.n0, s.bound} == {None}
    assert s.mean_samples == N
    assert s.classified_from == "runs/made/predict.jsonl"


@pytest.mark.parametrize(
    ("records", "arguments", "said"),
    [
        (certified([], inputs=5), {}, "runs/made/certify.jsonl holds no inputs yet"),
        (certified([AT_12]), {"alpha": 0.0}, "alpha must be between 0 and 1"),
        (certified([AT_12]), {"alpha": 1e-30}, "too small"),
        (certified([AT_12]), {"bound": "wilson"}, "bound must be one of one-sided, pairwise, two-sided, got 'wilson'"),
        (certified([AT_12], bound="later"), {}, "got 'later'"),
        (predicted([AT_12]), {"bound": "one-sided"}, "holds predictions; leave it out"),
        (replace(certified([AT_12]), header=header("attack")), {}, "'attack' records"),
        (replace(certified([AT_12]), header=header("predict")), {}, "input 0 is not a predict record"),
        (replace(predicted([AT_12]), header=header("certify")), {}, "input 0 is not a certify record"),
        (certified([AT_12], data="mnist"), {}, "damaged header"),
        (certified([AT_12], model={}), {}, "damaged header, 'sha256'"),
    ],
)
def test_refusals_name_what_came(records: Records, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said) as refusal:
        summarise(records, **arguments)
    assert "\n" not in str(refusal.value)


def test_a_file_gives_what_memory_gives(tmp_path: Path) -> None:
    records = certified([AT_12, AT_4, ABSTAINED], [0, 0, 2])
    with Writer(tmp_path / "certify.jsonl", records.header) as writer:
        writer.append(records.lines)
    found = summarise(read(tmp_path / "certify.jsonl"))
    assert found == replace(summarise(records), path=tmp_path / "certify.jsonl")


def test_to_dict_is_plain_json() -> None:
    s = summarise(certified([AT_6, ABSTAINED, ABSTAINED], inputs=9), alpha=0.04)
    values = json.loads(json.dumps(s.to_dict(), allow_nan=False))
    assert values == s.to_dict()
    expected = {
        "records": "runs/made/certify.jsonl",
        "inputs": 3,
        "expected_inputs": 9,
        "median_certified_robustness": None,
        "median_among_certified": 6,
        "median_reference_convention": 0,
        "certified_accuracy": [1 / 3] * 7,
        "accuracy": 1 / 3,
        "abstained": 2 / 3,
        "n0": N0,
        "n": N,
        "alpha": 0.04,
        "run_alpha": 0.05,
        "seed": 7,
        "bound": "two-sided",
        "certificate": "corollary-2",
        "data": "made_up",
        "split": "test",
        "model": "model.safetensors",
        "keep": 5,
        "units": 100,
        "encoding": "null-channels",
        "device": "cpu",
        "mean_seconds": 1.5,
        "mean_samples": 460,
        "invalid_votes": 0,
    }
    assert {key: values[key] for key in expected} == expected


def test_summaries_are_made_without_torch_or_matplotlib(tmp_path: Path) -> None:
    records = certified([AT_12, AT_4])
    path = tmp_path / "certify.jsonl"
    with Writer(path, records.header) as writer:
        writer.append(records.lines)
    program = (
        "from sparsecert.reports import FORMATS, summarise; from sparsecert.records import read\n"
        "assert not {'torch', 'matplotlib', 'scipy', 'rich'} & sys.modules.keys()\n"
        "summary = summarise(read(sys.argv[1])); texts = [f([summary]) for f in FORMATS.values()]\n"
        "assert summary.median == 12"
    )
    assert not modules_after(program, path) & {"torch", "matplotlib"}


def test_a_summary_cannot_be_edited() -> None:
    s = summarise(certified([AT_12]))
    assert isinstance(s, Summary)
    with pytest.raises(AttributeError):
        s.median = 99  # type: ignore[misc]
