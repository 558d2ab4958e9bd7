"""Votes by pairs in records: written, read, refused if damaged, merged, and certified again by any bound."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparsecert as sc
from benchmarks.simulated_votes import Simulation
from sparsecert import datasets, records
from sparsecert.bounds import corrected_alpha, predicted_by_pairs
from sparsecert.certificates import CERTIFICATES
from sparsecert.errors import InputError
from sparsecert.records import Record, read
from sparsecert.records.merging import merge
from sparsecert.records.subsample import subsample
from sparsecert.reports import FORMATS, summarise
from sparsecert.reports.summary import certificates_of
from sparsecert.runs import Shard, certify_dataset, predict_dataset
from sparsecert.schemes import Uniform


@pytest.fixture(scope="module")
def recorded(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Records of each kind."""
    out, smoothed, data = tmp_path_factory.mktemp("pairs"), sc.Smoothed.load(trained, rows=64), datasets.load("digits")
    fixed = sc.Fixed(30, 200, "pairwise")
    paths = {kind: out / f"{kind}.jsonl" for kind in ("certify", "sequential", "predict", "two-sided", "plain")}
    settings: dict[str, Any] = {"limit": 8, "seed": 3}
    certify_dataset(smoothed, trained, data, paths["certify"], fixed, **settings)
    certify_dataset(smoothed, trained, data, paths["two-sided"], replace(fixed, bound="two-sided"), **settings)
    certify_dataset(smoothed, trained, data, paths["sequential"], sc.Sequential(400, 50, bound="pairwise"), **settings)
    predict_dataset(smoothed, trained, data, paths["predict"], fixed, **settings)
    predict_dataset(smoothed, trained, data, paths["plain"], sc.Fixed(n=200), **settings)
    return paths


@pytest.mark.parametrize("kind", ["certify", "sequential", "predict"])
def test_lines_keep_the_counts_against_each_class(recorded: dict[str, Path], kind: str) -> None:
    found = read(recorded[kind])
    assert found.header.run["bound"] == "pairwise"
    for line in found.lines:
        assert line.selection is not None
        assert line.votes.above is not None
        assert line.selection.above is not None
        assert line.selection.chosen is not None
        assert kind == "predict" or line.label == line.selection.chosen
        for tally in (line.selection, line.votes):
            assert tally.above is not None
            assert tally.above[line.selection.chosen] == sum(tally.votes)
        assert Record.from_json(line.to_json(), 10) == line
        assert json.loads(line.to_json())["behind"][1].keys().isdisjoint({str(line.selection.chosen)})


def test_runs_by_other_bounds_have_no_new_keys(recorded: dict[str, Path]) -> None:
    for kind in ("two-sided", "plain"):
        found = read(recorded[kind])
        assert not any({"behind", "chosen"} & json.loads(line.to_json()).keys() for line in found.lines)
    assert "bound" not in read(recorded["plain"]).header.run


def test_predictions_say_which_class_is_elected(recorded: dict[str, Path]) -> None:
    for kind, rule in (("plain", "plurality"), ("predict", "pairwise")):
        found = read(recorded[kind])
        header = replace(found.header, run={key: value for key, value in found.header.run.items() if key != "rule"})
        assert found.header.run["rule"] == records.election_rule(header) == rule  # also where the header leaves it out
        assert records.difference(header, found.header) is None
        summary = summarise(found)
        assert (summary.rule, summary.bound, summary.to_dict()["rule"]) == (rule, None, rule)
        for text in FORMATS.values():
            assert rule in text([summary])
        shown = dict(re.findall(r"^(n0?) +(.*?) *$", FORMATS["terminal"]([summary]), re.MULTILINE))
        run = found.header.run
        tested = {"n0": f"{run['n0']} (chose the class)", "n": f"{run['n']} (tested it)"} if kind == "predict" else None
        assert shown == (tested or {"n": "200"})
    both = FORMATS["terminal"]([summarise(read(recorded[kind])) for kind in ("plain", "predict")])
    assert "plurality" in both
    assert "pairwise" in both
    different = records.difference(*(read(recorded[kind]).header for kind in ("plain", "predict")))
    assert different is not None


@pytest.mark.parametrize("bound", CERTIFICATES)
@pytest.mark.parametrize("kind", ["certify", "sequential"])
def test_reports_certify_again_by_any_bound(recorded: dict[str, Path], kind: str, bound: str) -> None:
    found, scheme = read(recorded[kind]), Uniform(64, 16)
    again = [c for _, c in certificates_of(found, scheme, 0.05, bound)]
    assert [c.interval.label for c in again] == [line.label for line in found.lines]
    if bound == "pairwise":
        assert [c.radius for c in again] == [line.radius for line in found.lines]
    s = summarise(found, bound=bound)
    assert s.certified == sum(c.label == line.true for c, line in zip(again, found.lines, strict=True))
    assert (s.bound, s.recertified) == (bound, bound != "pairwise")


def test_simulated_votes_have_the_recorded_shares(recorded: dict[str, Path]) -> None:
    found, n = read(recorded["certify"]), 40_000
    simulation = Simulation.of(recorded["certify"], 0.05, 0, None)
    counts = simulation.certify(sc.Fixed(20, n, "pairwise"))
    assert counts.estimation.above is not None
    smallest = []
    for row, line in enumerate(found.lines):
        assert line.votes.above is not None
        assert counts[row].interval.label == line.label  # type: ignore[union-attr]
        for own, simulated in ((line.votes.votes, counts.counts), (line.votes.above, counts.estimation.above)):
            shares = np.array(own) / 200
            assert (abs(simulated[row] / n - shares) <= 6 * np.sqrt(shares * (1 - shares) / n)).all()
        smallest.append(2 * min(line.votes.above) / 200 - 1)
    assert simulation.lead(CERTIFICATES["pairwise"]) == pytest.approx(np.array(smallest))
    assert Simulation.of(recorded["two-sided"], 0.05, 0, None).behind is None


def test_accuracy_is_of_the_classifier_that_is_certified(recorded: dict[str, Path]) -> None:
    found, predictions, scheme = read(recorded["certify"]), read(recorded["predict"]), Uniform(64, 16)
    level = corrected_alpha(0.05, scheme, 200)
    answers = [predicted_by_pairs(line.selection, line.votes, level) for line in found.lines]  # type: ignore[arg-type]
    assert summarise(found).accuracy == sum(a == line.true for a, line in zip(answers, found.lines, strict=True)) / 8
    by_predictions = summarise(found, predictions=predictions)
    assert by_predictions.accuracy == sum(line.label == line.true for line in predictions.lines) / 8
    assert summarise(predictions).accuracy == by_predictions.accuracy
    with pytest.raises(InputError, match="predicts the class with most votes, bound pairwise certifies the class that"):
        summarise(found, predictions=read(recorded["plain"]))
    with pytest.raises(InputError, match="predicts the class that beats every other one, bound two-sided certifies"):
        summarise(found, predictions=predictions, bound="two-sided")


def test_votes_without_comparisons_cannot_be_certified_by_pairs(recorded: dict[str, Path]) -> None:
    with pytest.raises(
        InputError, match=r"whose copies did not rank the classes .* certify again with --bound pairwise"
    ):
        summarise(read(recorded["two-sided"]), bound="pairwise")
    with pytest.raises(InputError, match="counted its votes by pairs"):
        subsample(read(recorded["certify"]), 10, 50)


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line.update(behind=[line["behind"][0], {"3": 10_000}]),
        lambda line: line.update(behind=[line["behind"][0], {"3": -1}]),
        lambda line: line.update(behind=[line["behind"][0], {str(line["chosen"]): 1}]),
        lambda line: line.update(chosen=10),
        lambda line: line.update(chosen=None),
        lambda line: line.update(behind=line["behind"][:1]),
        lambda line: line.pop("behind"),
    ],
)
def test_damaged_counts_are_refused(recorded: dict[str, Path], tmp_path: Path, change: Any) -> None:
    header, first, *rest = recorded["certify"].read_text().splitlines()
    line = json.loads(first)
    change(line)
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_text("\n".join([header, json.dumps(line), *rest, ""]))
    with pytest.raises(InputError, match=r"damaged\.jsonl"):
        records.read(damaged)


def test_shards_are_merged(trained: Path, recorded: dict[str, Path], tmp_path: Path) -> None:
    smoothed, data = sc.Smoothed.load(trained, rows=64), datasets.load("digits")
    parts = [tmp_path / f"{index}.jsonl" for index in (1, 2)]
    for index, part in enumerate(parts, start=1):
        procedure = sc.Fixed(30, 200, "pairwise")
        certify_dataset(smoothed, trained, data, part, procedure, limit=8, seed=3, shard=Shard(index, 2))
    whole = merge(parts, tmp_path / "whole.jsonl")
    expected = read(recorded["certify"])
    assert [replace(line, seconds=0.0) for line in whole.lines] == [
        replace(line, seconds=0.0) for line in expected.lines
    ]
