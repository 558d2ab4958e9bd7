"""A model whose votes all go to one class gets one warning; other models need no extra forward pass."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn

import sparsecert as sc
from sparsecert import datasets, models, runs
from sparsecert.cli import cli, run_command
from sparsecert.datasets import ArrayImages
from sparsecert.errors import OneClassWarning
from sparsecert.votes.one_class import overrated
from tests.helpers import untimed

SCHEME, ENCODING = sc.Uniform(16, 4), sc.MeanFill(0.0)
ONE_CLASS = "nearly all inputs get class 0 from their ablated copies, while the model gives .* several classes"


class WholeOnly(nn.Module):
    """Class 0, unless all units are shown: then the class that the first of them names."""

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(1))
        self.whole = 0

    def forward(self, copies: torch.Tensor) -> torch.Tensor:
        flat = copies.flatten(1)
        shown = (flat != 0).all(dim=1)
        self.whole += int(shown.sum())
        named = (4 * flat[:, 0]).long().clamp(0, 3)
        return nn.functional.one_hot(torch.where(shown, named, 0), 4).float()


def _images(classes: int = 4) -> torch.Tensor:
    """24 images of 4 x 4 pixels, none of them 0; the first pixel names one of so many classes."""
    images = torch.full((24, 1, 4, 4), 0.5)
    images[:, 0, 0, 0] = (torch.arange(24) % classes + 0.5) / 4
    return images


@pytest.mark.parametrize("procedure", [sc.Fixed(5, 20), sc.Sequential(64, n0=8)])
def test_votes_for_one_class_get_one_warning(procedure: sc.Fixed | sc.Sequential) -> None:
    with pytest.warns(UserWarning, match=ONE_CLASS) as shown:
        found = sc.Smoothed(WholeOnly(), SCHEME, ENCODING).certify(_images(), procedure)
    assert len(shown) == 1
    assert shown[0].filename == __file__
    assert found.selected.tolist() == [0] * 24


def test_exact_votes_and_random_values_are_compared_too() -> None:
    with pytest.warns(UserWarning, match=ONE_CLASS):
        found = sc.Smoothed(WholeOnly(), sc.Lattice(4, 4, parts=4), ENCODING).certify(_images())
    assert found.labels.tolist() == [0] * 24

    def replaced(copies: torch.Tensor) -> torch.Tensor:
        flat = copies.flatten(1)
        whole = (flat[:, 1:] == flat[:, 1:2]).all(dim=1)
        return nn.functional.one_hot(torch.where(whole, (4 * flat[:, 0]).long().clamp(0, 3), 0), 4).float()

    g = sc.Smoothed(replaced, sc.RandomValues(16, 0.3, 256), sc.ReplacedValues(256))
    with pytest.warns(UserWarning, match=ONE_CLASS):
        found = g.certify(_images(), n0=5, n=20)
    assert found.selected.tolist() == [0] * 24


@pytest.mark.parametrize(
    ("answers", "expected", "found"),
    [
        ([0, 34, 3, 3], [10, 10, 10, 10], 1),
        ([0, 40, 0, 0], [0, 40, 0, 0], None),  # inputs of one class
        ([0, 40, 0, 0], [0, 24, 16, 0], 1),
        ([0, 40, 0, 0], [0, 25, 15, 0], None),
        ([0, 31, 9, 0], [10, 10, 10, 10], None),
        ([0, 19, 0, 0], [5, 5, 5, 4], None),  # few inputs
        ([0, 0, 0, 0], [0, 0, 0, 0], None),
    ],
)
def test_a_class_is_overrated_if_it_gets_nearly_all_answers_and_is_due_far_fewer(
    answers: list[int], expected: list[int], found: int | None
) -> None:
    assert overrated(np.array(answers), np.array(expected)) == found


@pytest.mark.parametrize("verb", ["certify", "predict"])
def test_the_command_line_compares_answers_with_true_classes(verb: str, tmp_path: Path) -> None:
    """A network that answers one class to whole images too; and none where that class is right."""
    net = models.build("digits-cnn", 2, 10)
    with torch.no_grad():
        for weight in net.parameters():
            weight.zero_()
        list(net.parameters())[-1][3] = 1.0
    g = sc.Smoothed(net, sc.Uniform(64, 16), sc.NullChannels(), classes=10)
    g.save(tmp_path / "three.safetensors")
    digits, shown = datasets.load("digits"), []
    chosen = digits.spaced_indices(30)
    threes = np.flatnonzero(digits.labels == 3)
    np.savez(
        tmp_path / "threes.npz",
        images=digits.batch(threes)[:, 0],
        labels=digits.labels[threes],
        classes=np.array(digits.classes),
    )
    for data in ("digits", str(tmp_path / "threes.npz")):
        command = [verb, tmp_path / "three.safetensors", "--data", data, "--limit", 30, "--n", 50]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            done = CliRunner().invoke(cli, [*map(str, command), "--out", str(tmp_path / f"{len(shown)}.jsonl")])
        assert done.exit_code == 0, done.output
        shown.append([str(one.message) for one in caught if "is the answer to" in str(one.message)])
    assert [line.split(";")[0] for line in shown[0]] == [
        f"class 3 is the answer to 30 of 30 inputs and the true class of {(digits.labels[chosen] == 3).sum()}"
    ]
    assert not shown[1]


def test_a_command_says_once_that_certificates_are_of_no_use(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    @click.command()
    def certify() -> None:
        for number in range(2):
            warnings.warn(f"class 0 {number}", OneClassWarning, stacklevel=1)
            warnings.warn(f"something else {number}", stacklevel=1)

    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    for _ in range(2):  # each command by itself
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            with pytest.raises(SystemExit, match="0"):
                run_command(certify, "certify", [])
        lines = capsys.readouterr().err.splitlines()
        assert lines == ["Warning: class 0 0", "Warning: something else 0", "Warning: something else 1"]


def test_inputs_of_one_class_and_few_inputs_are_no_reason() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        g = sc.Smoothed(WholeOnly(), SCHEME, ENCODING)
        alike, few = g.certify(_images(classes=1), n0=5, n=20), g.certify(_images()[:19], n0=5, n=20)
    assert set(alike.selected.tolist()) == set(few.selected.tolist()) == {0}


def test_a_model_with_several_answers_scores_no_whole_input() -> None:
    class FirstShown(WholeOnly):
        def forward(self, copies: torch.Tensor) -> torch.Tensor:
            super().forward(copies)
            return nn.functional.one_hot((copies.flatten(1).amax(dim=1) > 0.6).long(), 4).float()

    images = _images()
    images[::2] += 0.2
    model = FirstShown()
    sc.Smoothed(model, SCHEME, ENCODING).certify(images, n0=5, n=20)
    assert model.whole == 0


def test_a_model_that_takes_copies_alone_is_left_alone() -> None:
    class CopiesOnly(WholeOnly):
        def forward(self, copies: torch.Tensor) -> torch.Tensor:
            scores = super().forward(copies)
            if self.whole:
                raise KeyError("no such mask")
            return scores

    class ByMask(WholeOnly):
        def score_all(self, whole: torch.Tensor) -> torch.Tensor:
            raise AssertionError

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for model in (CopiesOnly(), ByMask()):
            assert len(sc.Smoothed(model, SCHEME, ENCODING).certify(_images(), n0=5, n=20)) == 24


def test_a_run_in_groups_warns_once_and_its_records_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = (_images() * 255).round().byte().numpy()
    digits = datasets.load("digits")
    data = replace(digits, images=ArrayImages(pixels), labels=np.zeros(24, np.int64), classes=("a", "b", "c", "d"))
    g = sc.Smoothed(WholeOnly(), SCHEME, ENCODING, classes=4, rows=8)  # groups of few inputs
    g.save(tmp_path / "model.safetensors")

    def run(name: str) -> Path:
        runs.certify_dataset(g, tmp_path / "model.safetensors", data, tmp_path / name, n0=5, n=20)
        return tmp_path / name

    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        compared = run("compared.jsonl")
    assert [str(one.message).split(" from ")[0] for one in shown] == ["nearly all inputs get class 0"]
    monkeypatch.setattr("sparsecert.votes.one_class.LEAST_INPUTS", 1_000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert untimed(run("not.jsonl")) == untimed(compared)
