"""Texts through runs, records and reports: the same code as images, with the units of each input in its line."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from sparsecert import records
from sparsecert.errors import InputError
from sparsecert.procedures import Exact, Fixed, Procedure, Sequential
from sparsecert.records.merging import merge
from sparsecert.reports import FORMATS, summarise
from sparsecert.reports.summary import recertify
from sparsecert.runs import Shard, certify_dataset, predict_dataset
from sparsecert.schemes import Partition, Scheme, Share
from sparsecert.smoothed import Smoothed
from tests.texts.made import smoothed, texts_of

RUNS: list[tuple[Scheme, Procedure]] = [
    (Share("0.3"), Fixed(20, 100)),
    (Share("0.3"), Fixed(20, 100, "one-sided")),
    (Share("0.3"), Fixed(20, 100, "pairwise")),
    (Share("0.3"), Sequential(400, 20)),
    (Partition(None, 4), Exact()),
    (Partition(None, 100), Exact("plurality")),
    (Partition(None, 3, contiguous=True), Exact("run-off")),
]


@pytest.mark.parametrize(("scheme", "procedure"), RUNS, ids=str)
def test_a_run_records_the_units_and_reports_prove_every_radius_again(
    scheme: Scheme, procedure: Procedure, tmp_path: Path
) -> None:
    g, reader = smoothed(scheme)
    data, model, out = texts_of(reader), tmp_path / "model.safetensors", tmp_path / "c.jsonl"
    g.save(model)
    certify_dataset(g, model, data, out, procedure)
    found = records.read(out)
    lengths = [len(text.split()) for text in data.texts]
    assert [line.units for line in found.lines] == lengths
    whole = g.certify(_tensor(data), procedure)
    assert [line.radius for line in found.lines] == [c.radius for c in whole]
    summary = summarise(found)
    again = [(line, c) for line, c in recertify(found, summary)]
    assert [c.radius for _, c in again] == [line.radius for line in found.lines]
    assert [line.example for line, _ in again] == [*range(len(data))]
    shares = sorted(
        (Fraction(c.radius, line.units or 0) for line, c in again if c.label == line.true and c.radius is not None),
        reverse=True,
    )
    half = (len(data) + 1) // 2
    assert summary.median_share == (shares[half - 1] if len(shares) >= half else None)
    assert summary.unit == "words"
    if summary.median_share is not None:
        assert f"({float(summary.median_share):.2%} of the words)" in " ".join(FORMATS["terminal"]([summary]).split())
    mine = whole.summary(np.array(data.labels))
    assert mine.certified_accuracy == summary.certified_accuracy
    assert (mine.unit, mine.against, mine.median_share) == ("words", summary.against, summary.median_share)


def _tensor(data: object) -> object:
    import torch

    return torch.from_numpy(data.batch(range(len(data))))  # type: ignore[attr-defined, arg-type]


@pytest.mark.parametrize(("scheme", "procedure"), [RUNS[0], RUNS[4]], ids=str)
def test_shards_and_resumed_runs_give_the_same_lines(scheme: Scheme, procedure: Procedure, tmp_path: Path) -> None:
    g, reader = smoothed(scheme)
    data, model, out = texts_of(reader), tmp_path / "model.safetensors", tmp_path / "c.jsonl"
    g.save(model)
    certify_dataset(g, model, data, out, procedure)
    lines = _lines(out)
    text = out.read_text().splitlines(keepends=True)
    out.write_text("".join(text[:9]) + text[9][:20])
    certify_dataset(g, model, data, out, procedure)
    assert _lines(out) == lines
    parts = [tmp_path / f"{i}.jsonl" for i in (1, 2)]
    for index, part in enumerate(parts, start=1):
        certify_dataset(g, model, data, part, procedure, shard=Shard(index, 2))
    merge(parts, tmp_path / "merged.jsonl")
    assert _lines(tmp_path / "merged.jsonl") == lines


def _lines(path: Path) -> list[records.Record]:
    return sorted((replace(line, seconds=0.0) for line in records.read(path).lines), key=lambda line: line.example)


@pytest.mark.parametrize("scheme", [Share("0.3"), Partition(None, 4)], ids=str)
def test_predictions_are_recorded_with_their_units(scheme: Scheme, tmp_path: Path) -> None:
    g, reader = smoothed(scheme)
    data, model, out = texts_of(reader), tmp_path / "model.safetensors", tmp_path / "p.jsonl"
    g.save(model)
    predict_dataset(g, model, data, out)
    found = records.read(out)
    assert [line.units for line in found.lines] == [len(text.split()) for text in data.texts]
    assert summarise(found).accuracy == np.mean([line.label == line.true for line in found.lines])


@pytest.mark.parametrize("units", [0, None, "3", -2, 2.0])
def test_lines_of_other_units_are_refused(units: object, tmp_path: Path) -> None:
    path = _damaged(tmp_path, Share("0.3"), Fixed(20, 100), {"units": units})
    with pytest.raises(InputError, match="units"):
        records.read(path)


def test_a_line_that_claims_other_units_proves_less_or_is_refused(tmp_path: Path) -> None:
    path = _damaged(tmp_path, Partition(None, 4), Exact(), {"units": 1})
    with pytest.raises(InputError, match=r"it has \d rankings, not 1"):
        summarise(records.read(path))


def test_units_in_a_run_of_one_size_are_refused(tmp_path: Path) -> None:
    path = _damaged(tmp_path, Share("0.3"), Fixed(20, 100), {}, {"scheme": {"kind": "uniform", "units": 9, "keep": 2}})
    with pytest.raises(InputError, match="units"):
        records.read(path)


def _damaged(
    folder: Path, scheme: Scheme, procedure: Procedure, line: dict[str, object], run: dict[str, object] | None = None
) -> Path:
    """Records whose longest text says something else."""
    g, reader = smoothed(scheme)
    data, model, out = texts_of(reader), folder / "model.safetensors", folder / "c.jsonl"
    g.save(model)
    certify_dataset(g, model, data, out, procedure)
    header, *lines = [json.loads(text) for text in out.read_text().splitlines()]
    header["run"] |= run or {}
    max(lines, key=lambda one: one["units"]).update(line)
    out.write_text("".join(f"{json.dumps(one)}\n" for one in (header, *lines)))
    return out


def test_texts_of_one_word_are_certified_at_radius_0_at_most() -> None:
    for scheme, settings in ((Share("0.3"), {"n0": 20, "n": 100}), (Partition(None, 4), {})):
        g, reader = smoothed(scheme)
        import torch

        found = g.certify(torch.from_numpy(reader.batch(["great", "the"])), **settings)
        assert found.radii.max() <= 0


def test_a_radius_that_a_short_text_cannot_have_is_answered_no() -> None:
    g, reader = smoothed(Share("0.5"))
    data = texts_of(reader)
    found = g.certify(_tensor(data), Sequential(400, 20, at_least=2), alpha=0.05)
    lengths = [len(text.split()) for text in data.texts]
    none = [length for length in set(lengths) if Share("0.5").for_units(length).delta(2) >= Fraction(1, 2)]
    assert none
    assert {answer for length, answer in zip(lengths, found.answers, strict=True) if length in none} == {"no"}
    for answer, one in zip(found.answers, found, strict=True):
        assert (answer == "yes") == (one.radius is not None and one.radius >= 2)


def test_top_k_and_the_other_claims_follow_the_length(tmp_path: Path) -> None:
    g, reader = smoothed(Share("0.3"))
    found = g.certify(_tensor(texts_of(reader)), n0=20, n=100)  # type: ignore[arg-type]
    top = found.top(2)
    assert found.units is not None
    assert [one.radius for one in top] == found.units.tolist()  # of two classes, one is always among the leading two


def test_the_model_file_brings_the_open_scheme_back(tmp_path: Path) -> None:
    for scheme in (Share("0.3"), Partition(None, 4, contiguous=True)):
        g, reader = smoothed(scheme, "word-cnn", masked=True)
        g.save(tmp_path / "m.safetensors")
        again = Smoothed.load(tmp_path / "m.safetensors")
        assert (again.scheme, again.encoding.config()) == (scheme, g.encoding.config())
        data = texts_of(reader)
        settings = {} if isinstance(scheme, Partition) else {"n0": 20, "n": 50}
        assert (
            again.certify(_tensor(data), **settings).radii.tolist()
            == g.certify(_tensor(data), **settings).radii.tolist()
        )  # type: ignore[arg-type]
