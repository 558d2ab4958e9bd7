"""What certify returned, summed up, as a table, and as records that `sparsecert report` reads."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import sparsecert as sc
from sparsecert import datasets, records, reports, runs
from tests.commands import sparsecert
from tests.helpers import Digits

PROCEDURES = [sc.Fixed(20, 100), sc.Fixed(20, 100, "pairwise"), sc.Sequential(200, n0=20, at_least=1), sc.Exact()]


@pytest.fixture(scope="module")
def g(trained: Path) -> sc.Smoothed:
    return sc.Smoothed.load(trained)


def _certified(g: sc.Smoothed, digits: Digits, procedure: sc.Fixed | sc.Sequential | sc.Exact) -> sc.Certifications:
    scheme = sc.Lattice(8, 8, parts=4) if isinstance(procedure, sc.Exact) else g.scheme
    return sc.Smoothed(g.model, scheme, g.encoding).certify(digits[0], procedure)


@pytest.mark.parametrize("procedure", PROCEDURES, ids=str)
def test_the_summary_is_the_report_of_the_saved_records(
    g: sc.Smoothed, digits: Digits, tmp_path: Path, procedure: sc.Fixed | sc.Sequential | sc.Exact
) -> None:
    c, labels = _certified(g, digits, procedure), digits[1]
    summary = c.summary(labels)
    right = c.labels == labels.numpy()
    radii = [c.certified(labels.numpy(), radius).mean() for radius in range(int(c.radii[right].max()) + 1)]
    assert summary.certified_accuracy == pytest.approx(radii)
    assert summary.median == reports.median_certified_robustness(
        [int(radius) if true else None for radius, true in zip(c.radii, right, strict=True)]
    )
    out = tmp_path / "saved" / "c.jsonl"
    c.save(out, labels.tolist(), data="my digits")
    done = sparsecert("report", out, "--format", "json")
    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout)
    assert reported["accuracy"] == summary.accuracy
    assert reported["certified_accuracy"] == list(summary.certified_accuracy)
    assert (reported["data"], reported["model_sha256"], reported["inputs"]) == ("my digits", "unsaved", 20)
    assert reported["mean_seconds"] > 0


def test_saved_records_are_those_of_a_run(trained: Path, g: sc.Smoothed, tmp_path: Path) -> None:
    data = datasets.load("digits")
    indices = data.spaced_indices(6).tolist()
    runs.certify_dataset(g, trained, data, tmp_path / "run.jsonl", n0=20, n=100, seed=3, limit=6)
    c = g.certify(runs.load_batch(data, indices), n0=20, n=100, seed=3, examples=indices)
    c.save(tmp_path / "saved.jsonl", data.labels[indices], model=trained)
    run, saved = (records.read(tmp_path / f"{name}.jsonl") for name in ("run", "saved"))
    without_times = [{**vars(line), "seconds": 0} for line in saved.lines]
    assert without_times == [{**vars(line), "seconds": 0} for line in run.lines]
    assert {**run.header.run, "data": None} == {**saved.header.run, "data": None}
    with pytest.raises(sc.InputError, match="is there already; name another file"):
        c.save(tmp_path / "saved.jsonl", data.labels[indices])


@pytest.mark.parametrize("whole", [False, True], ids=["a name", "a Dataset"])
@pytest.mark.parametrize("saved", [False, True], ids=["no file", "a model file"])
def test_saved_records_make_a_page(trained: Path, g: sc.Smoothed, tmp_path: Path, whole: bool, saved: bool) -> None:
    data = datasets.load("digits")
    places = [3, 50, 4]
    c = g.certify(runs.load_batch(data, places), n0=20, n=100, examples=places)
    out, page = tmp_path / "c.jsonl", tmp_path / "c.html"
    c.save(out, data.labels[places], data=data if whole else "digits", model=trained if saved else None)
    done = sparsecert("report", out, "--html", page)
    assert done.returncode == 0, done.stderr
    assert ("data:image/png" in page.read_text(), "No images of inputs are shown" in page.read_text()) == (
        whole,
        not whole,
    )
    assert ("fingerprint" in records.read(out).header.run["data"]) == whole


def test_a_saved_data_set_is_that_of_the_inputs(g: sc.Smoothed, tmp_path: Path) -> None:
    data = datasets.load("digits")
    places = [3, 50, 4]
    inputs = runs.load_batch(data, places)
    with pytest.raises(sc.InputError, match="labels must be those that digits has at the numbers of the inputs"):
        g.certify(inputs, n0=5, n=20).save(tmp_path / "c.jsonl", data.labels[places], data=data)
    beyond = g.certify(inputs, n0=5, n=20, examples=[3, 50, 500])
    with pytest.raises(sc.InputError, match="digits has 500, and none of number 500"):
        beyond.save(tmp_path / "c.jsonl", data.labels[places], data=data)


def test_the_labels_of_a_loader_need_not_be_given_again(g: sc.Smoothed, digits: Digits, tmp_path: Path) -> None:
    images, labels = digits
    c = g.certify([(images, labels)], n0=5, n=20)
    assert c.summary() == c.summary(labels)
    c.save(tmp_path / "c.jsonl")
    assert [line.true for line in records.read(tmp_path / "c.jsonl").lines] == labels.tolist()
    with pytest.raises(sc.InputError, match="these inputs came without any"):
        g.certify(images, n0=5, n=20).summary()
    with pytest.raises(sc.InputError, match=r"name it \.jsonl, or use to_frame"):
        c.save(tmp_path / "c.csv")
    assert not (tmp_path / "c.csv").exists()


def test_a_table_has_a_row_for_each_input(g: sc.Smoothed, digits: Digits, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    c = _certified(g, digits, sc.Fixed(5, 20))
    frame = c.to_frame()
    assert frame["label"].isna().tolist() == frame["radius"].isna().tolist() == c.abstained.tolist()
    assert frame["label"].fillna(-1).tolist() == c.labels.tolist()
    assert frame["selected"].tolist() == c.selected.tolist()
    assert frame["p_lower"].tolist() == c.p_lower.tolist()
    asked = _certified(g, digits, sc.Sequential(64, n0=8, at_least=1))
    assert tuple(asked.to_frame()["answer"]) == asked.answers
    assert "p_lower" not in _certified(g, digits, sc.Exact()).to_frame()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(sc.InputError, match="to_frame needs pandas; install it"):
        c.to_frame()


def test_classes_by_name(tmp_path: Path) -> None:
    naive_bayes = pytest.importorskip("sklearn.naive_bayes")
    from sparsecert.tabular import AblatedClassifier

    X = np.repeat(np.eye(4), 6, axis=0)
    y = np.array(["first", "second", "third", "fourth"])[X.argmax(axis=1)]
    c = AblatedClassifier(naive_bayes.GaussianNB(), keep=2, random_state=0).fit(X, y).certify(X)
    assert c.summary(y).certified_accuracy_at(0) == (c.names == y).mean()
    assert c.to_frame()["label"].tolist() == c.names.tolist()
    c.save(tmp_path / "rows.jsonl", y)
    assert records.read(tmp_path / "rows.jsonl").header.run["against"] == "features"


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1], "labels must be the true class of each of the 20 inputs, got 2"),
        (3, "labels must be the true class of each of the 20 inputs, got 1"),
        ([10] * 20, "labels must be among the classes 0 to 9, got 10"),
        (["seven"] * 20, "labels must be among the classes 0 to 9, got 'seven'"),
    ],
)
def test_wrong_labels_are_refused(g: sc.Smoothed, digits: Digits, labels: object, message: str) -> None:
    with pytest.raises(sc.InputError, match=message):
        _certified(g, digits, sc.Fixed(5, 20)).summary(labels)


def test_inputs_that_share_a_number_cannot_be_saved(g: sc.Smoothed, tmp_path: Path) -> None:
    c = g.certify(torch.rand(2, 1, 8, 8), n0=5, n=20, examples=[3, 3])
    with pytest.raises(sc.InputError, match="these inputs share a number"):
        c.save(tmp_path / "c.jsonl", [0, 0])


def test_a_dataset_made_in_python_needs_no_name_that_is_known(trained: Path, tmp_path: Path) -> None:
    data = replace(datasets.load("digits"), name="some of mine")
    with pytest.warns(UserWarning, match="the model was trained on digits, not on some of mine"):
        runs.certify_dataset(sc.Smoothed.load(trained), trained, data, tmp_path / "run.jsonl", n0=20, n=50, limit=2)
    assert len(records.read(tmp_path / "run.jsonl").lines) == 2
