"""The comparison of ways from a plain network to a certified classifier: what it trains, reads and prints."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from benchmarks import pretrained
from sparsecert import datasets, models
from sparsecert.encodings import Encoding
from sparsecert.procedures import Exact
from sparsecert.runs import load_batch
from sparsecert.schemes import Uniform
from sparsecert.smoothed import Smoothed
from sparsecert.training import held_out
from sparsecert.training.recipes import Recipe, recipe_for

WAYS = {
    "random masks": ("digits-cnn", ["--keep", "16", "--n", "50"]),
    "bands": ("vit-tiny-4", ["--scheme", "bands-3", "--recipe", "fine-tune", "--model", "vit-tiny-4"]),
}


@pytest.mark.parametrize(("model", "options"), WAYS.values(), ids=WAYS)
def test_each_way_is_measured_from_the_same_plain_network(
    model: str,
    options: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(pretrained, "TRIED", 2)
    digits, path = datasets.load("digits", "train"), tmp_path / "plain.safetensors"
    np.savez(tmp_path / "some.npz", images=digits.batch(range(60))[:, 0], labels=digits.labels[:60])
    given = ["--data", str(tmp_path / "some.npz"), "--plain", str(path), "--minutes", "0", "--rhos", "0", "1"]
    pretrained.main([*given, "--plain-minutes", "0.01", "--device", "cpu", *options])
    first, weights = capsys.readouterr().out, path.read_bytes()
    pretrained.main([*given, "--device", "cpu", *options])
    again = capsys.readouterr().out
    assert path.read_bytes() == weights
    trained = [re.search(r"plain network: \d+ epochs", printed) is not None for printed in (first, again)]
    assert trained == [True, False]  # then it is read

    fit, held = held_out.split(datasets.load(str(tmp_path / "some.npz"), "train"))
    net = models.build(model, 1, 10)
    net.load_state_dict(load_file(path))
    with torch.no_grad():
        answers = net.eval()(load_batch(held, range(len(held)))).argmax(dim=1).numpy()
    for printed in (first, again):
        assert f"{len(fit)} images to train on, {len(held)} held-out images" in printed
        assert f"{np.mean(answers == held.labels):.2%} of whole images right" in printed
        table = printed.split("\nway ")[1].splitlines()[1:]
        assert [line.split(",")[0] for line in table] == ["frozen", "adapted", "random weights"]
        for line in table:
            *_, accuracy, median, right, certified = line.split()
            assert accuracy == right  # what is right is certified at 0
            assert float(right.rstrip("%")) >= float(certified.rstrip("%"))
            assert median == "N/A" or int(median) >= 0


def test_one_way_can_be_measured_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pretrained, "TRIED", 2)
    digits, path = datasets.load("digits", "train"), tmp_path / "plain.safetensors"
    np.savez(tmp_path / "some.npz", images=digits.batch(range(60))[:, 0], labels=digits.labels[:60])
    given = ["--data", str(tmp_path / "some.npz"), "--plain", str(path), "--minutes", "0", "--device", "cpu"]
    pretrained.main([*given, "--ways", "random"])
    (row,) = capsys.readouterr().out.split("\nway ")[1].splitlines()[1:]
    assert row.startswith("random weights")
    assert not path.exists()  # nobody asked for a plain network
    pretrained.main([*given, "--ways", "adapted"])
    (row,) = capsys.readouterr().out.split("\nway ")[1].splitlines()[1:]
    assert row.startswith("adapted")
    assert path.exists()


def test_the_plain_network_sees_values_as_they_are_in_bf16_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the network would not be the one of whole images that the ways are told it is."""
    digits, seen = datasets.load("digits", "train"), []

    def in_time(way: str, setting: pretrained.Setting, recipe: Recipe, minutes: float, encoding: Encoding) -> object:
        seen.append((recipe.precision, encoding))
        return Smoothed(models.build("digits-cnn", 1, 10), setting.scheme, encoding, classes=10), "no epochs", 0.0

    monkeypatch.setattr(pretrained, "in_time", in_time)
    recipe = replace(recipe_for(digits), precision="bf16")
    setting = pretrained.Setting(digits, digits, recipe, Uniform(64, 16), torch.device("cpu"), Exact())
    pretrained.train_plain(setting, 0.0, tmp_path / "plain.safetensors")
    whole = load_batch(digits, range(5))
    [(precision, encoding)] = seen
    assert precision == "bf16"
    assert torch.equal(encoding.encode(whole, torch.ones_like(whole, dtype=torch.bool)), whole)
