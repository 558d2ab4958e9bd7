"""A model whose votes all go to one class gets one warning; other models need no extra forward pass."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import sparsecert as sc
from sparsecert import datasets, runs
from sparsecert.datasets import ArrayImages
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
