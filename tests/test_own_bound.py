"""A bound or rule of the model's own: written by `train`, kept in its file, taken by whatever names none."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result

import sparsecert as sc
from sparsecert import datasets, modelfile, records
from sparsecert.cli import cli
from sparsecert.errors import InputError
from sparsecert.procedures import Procedure, procedure_for
from sparsecert.runs import AllMasksTarget, certify_dataset, predict_dataset, target_of
from tests.helpers import Digits

IMAGES = torch.rand(3, 1, 2, 3, generator=torch.Generator().manual_seed(0))


def _sparsecert(*arguments: object) -> Result:
    done = CliRunner(env={"COLUMNS": "160"}).invoke(cli, list(map(str, arguments)))
    assert done.exit_code == 0, done.exception
    return done


def _smoothed(scheme: sc.Scheme, **metadata: Any) -> sc.Smoothed:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 3))
    return sc.Smoothed(model, scheme, sc.NullChannels(), metadata=metadata)


RANDOM, FIXED = sc.Uniform(6, 2), sc.Lattice(2, 3, 3)


@pytest.mark.parametrize(
    ("scheme", "own", "given", "expected"),
    [
        (RANDOM, {}, sc.Fixed(5, 20), sc.Fixed(5, 20, "two-sided")),
        (RANDOM, {"bound": "pairwise"}, sc.Fixed(5, 20), sc.Fixed(5, 20, "pairwise")),
        (RANDOM, {"bound": "pairwise"}, sc.Fixed(5, 20, "one-sided"), sc.Fixed(5, 20, "one-sided")),
        (RANDOM, {"bound": "pairwise"}, None, sc.Fixed(bound="pairwise")),
        (RANDOM, {"bound": "one-sided"}, sc.Sequential(99, 9), sc.Sequential(99, 9, bound="one-sided")),
        (RANDOM, {"bound": [0, 1]}, sc.Fixed(), sc.Fixed(bound="two-sided")),  # somebody's own metadata
        (FIXED, {"rule": "plurality"}, None, sc.Exact("plurality")),
        (FIXED, {"rule": "plurality"}, sc.Exact("run-off"), sc.Exact("run-off")),
        (FIXED, {}, sc.Exact(), sc.Exact()),
        (FIXED, {"rule": "plurality"}, sc.Fixed(5, 20), sc.Fixed(5, 20, "two-sided")),
    ],
)
def test_what_a_procedure_leaves_open_is_the_models_own(
    scheme: sc.Scheme, own: dict[str, Any], given: Procedure | None, expected: Procedure
) -> None:
    assert procedure_for(_smoothed(scheme, **own), given) == expected


def test_votes_and_certificates_are_those_of_the_bound_that_is_taken() -> None:
    ours, other = _smoothed(RANDOM, bound="pairwise"), _smoothed(RANDOM)
    found, expected = ours.certify(IMAGES, n0=20, n=200), other.certify(IMAGES, sc.Fixed(20, 200, "pairwise"))
    assert (found.procedure, found.certificates) == (sc.Fixed(20, 200, "pairwise"), expected.certificates)
    assert found.estimation.above is not None
    assert ours.predict(IMAGES, n=200).answers == other.predict(IMAGES, sc.Fixed(n=200, bound="pairwise")).answers
    elected = {rule: _smoothed(FIXED, rule=rule).certify(IMAGES) for rule in ("plurality", "pairwise")}
    assert [one.procedure for one in elected.values()] == [sc.Exact("plurality"), sc.Exact("pairwise")]
    for rule, one in elected.items():
        assert one.certificates == _smoothed(FIXED).certify(IMAGES, sc.Exact(rule)).certificates


def test_a_name_that_is_none_is_refused() -> None:
    for scheme, own in ((RANDOM, {"bound": "other"}), (FIXED, {"rule": "other"})):
        with pytest.raises(InputError, match=r"must be one of .*, got 'other'"):
            _smoothed(scheme, **own).certify(IMAGES)


@pytest.fixture(scope="module")
def by_pairs(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that names its bound."""
    out = tmp_path_factory.mktemp("by-pairs")
    shutil.copy(trained / modelfile.MODEL_NAME, out)
    modelfile.add_metadata(out, bound="pairwise")
    return out


def test_the_file_keeps_it_and_nothing_else_changes(trained: Path, by_pairs: Path, digits: Digits) -> None:
    before, after = modelfile.read_header(trained), modelfile.read_header(by_pairs)
    assert after.pop("facts") == {**before.pop("facts"), "bound": "pairwise"}
    assert after == before
    plain, own = sc.Smoothed.load(trained), sc.Smoothed.load(by_pairs)
    procedure = sc.Fixed(20, 100)
    assert (own.certify(digits[0], procedure).counts == plain.certify(digits[0], procedure).counts).all()
    with pytest.raises(InputError, match="says bound pairwise, not one-sided; use another --out folder"):
        modelfile.add_metadata(by_pairs, bound="one-sided")
    assert json.loads(_sparsecert("info", by_pairs).stdout)["facts"]["bound"] == "pairwise"


@pytest.mark.parametrize(("asked", "bound"), [((), "pairwise"), (("--bound", "two-sided"), "two-sided")])
def test_commands_take_it_and_records_name_what_was_taken(
    by_pairs: Path, tmp_path: Path, asked: tuple[str, ...], bound: str
) -> None:
    common = by_pairs, "--data", "digits", "--limit", 3, *asked, "--device", "cpu"
    certified, stopped, predicted = (tmp_path / f"{verb}.jsonl" for verb in ("certify", "sequential", "predict"))
    for _ in range(2):  # the second time it resumes
        _sparsecert("certify", *common, "--n0", 20, "--n", 100, "--out", certified)
    _sparsecert("certify", *common, "--n0", 20, "--sampling", "sequential", "--max-samples", 300, "--out", stopped)
    done = _sparsecert("predict", *common, "--n", 100, "--out", predicted)
    rule = "pairwise" if bound == "pairwise" else "plurality"
    assert f"\nbound                 {rule}\n" in done.stdout
    assert [records.read(path).header.run["bound"] for path in (certified, stopped)] == [bound, bound]
    assert records.read(predicted).header.run["rule"] == rule


def test_train_writes_it(tmp_path: Path) -> None:
    common = "train", "--data", "digits", "--epochs", 1
    for name, asked in (("pairwise", ()), ("two-sided", ("--bound", "two-sided"))):
        command = *common, "--keep", 8, *asked, "--out", tmp_path / name
        _sparsecert(*command)
        assert sc.Smoothed.load(tmp_path / name).metadata["bound"] == name
        written = (tmp_path / name / modelfile.MODEL_NAME).read_bytes()
        _sparsecert(*command)
        assert (tmp_path / name / modelfile.MODEL_NAME).read_bytes() == written
    fixed = *common, "--scheme", "lattice", "--parts", 4, "--out", tmp_path / "fixed"
    _sparsecert(*fixed, "--rule", "plurality")
    found = _sparsecert("certify", tmp_path / "fixed", "--data", "digits", "--limit", 2, "--device", "cpu")
    assert found.stdout
    assert records.read(tmp_path / "fixed" / "certify.jsonl").header.run["rule"] == "plurality"
    target = target_of(str(tmp_path / "fixed"), datasets.load("digits"), "cpu")
    assert isinstance(target, AllMasksTarget)
    assert target.rule == "plurality"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--rule", "plurality"), "--rule is for a fixed set of masks"),
        (("--scheme", "lattice", "--parts", 4, "--bound", "pairwise"), "--bound is for masks drawn at random"),
        (("--plain", "cnn", "--bound", "pairwise"), "--bound is for training on ablated inputs"),
    ],
)
def test_train_refuses_what_the_masks_have_not(tmp_path: Path, arguments: tuple[object, ...], message: str) -> None:
    command = "train", "--data", "digits", "--out", tmp_path / "run", *arguments
    done = CliRunner().invoke(cli, list(map(str, command)))
    assert isinstance(done.exception, InputError)
    assert message in str(done.exception)
    assert not (tmp_path / "run").exists()


def test_a_run_by_another_bound_is_not_resumed(by_pairs: Path, tmp_path: Path) -> None:
    smoothed, data = sc.Smoothed.load(by_pairs), datasets.load("digits")
    for run, settings in ((certify_dataset, {"n0": 10, "n": 40}), (predict_dataset, {"n": 40})):
        out = tmp_path / f"{run.__name__}.jsonl"
        run(smoothed, by_pairs, data, out, limit=2, **settings)  # type: ignore[operator]
        other = replace(sc.Fixed(**settings), bound="two-sided")
        with pytest.raises(InputError, match=r'holds another run: (bound|rule) is "pairwise" there'):
            run(smoothed, by_pairs, data, out, other, limit=2)  # type: ignore[operator]
