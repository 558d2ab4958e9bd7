"""A package from outside: one file with one of each kind, found by its entry points, on the command line and by Ray."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import sparsecert
from sparsecert.registry import REGISTRIES

THINGS = '''
"""One of each kind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import nn

from sparsecert import datasets
from sparsecert.attacks import Attack
from sparsecert.bounds import one_sided
from sparsecert.certificates import Method, corollary_1
from sparsecert.certificates.plurality import Rule, first_choices
from sparsecert.encodings import Encoding
from sparsecert.registry import (
    ATTACKS, DATASETS, ENCODINGS, CERTIFICATES, MODELS, RECIPES, RULES, SCHEMES, Option,
)
from sparsecert.schemes import ImageMasks
from sparsecert.training.recipe import Recipe


@SCHEMES.register("combs")
@dataclass(frozen=True)
class Combs(ImageMasks):
    options: ClassVar = (Option("--teeth", int, "Masks, each of every so many rows.", "parts", least=1, required=True),)

    parts: int

    def _table(self):
        row = np.arange(self.units) // self.width
        return row % self.parts == np.arange(self.parts)[:, None]


@ENCODINGS.register("grey")
class Grey(Encoding):
    options: ClassVar = (Option("--shade", float, "What NULL looks like.", default=0.5),)

    def __init__(self, shade=0.5):
        self.shade = float(shade)

    def encode(self, inputs, retained):
        values = torch.where(retained, inputs, self.shade)
        return torch.cat((values, retained.to(values.dtype).expand_as(values)), dim=1)

    def channels(self, channels):
        return 2 * channels


CERTIFICATES.register("majority")(Method("majority", one_sided, corollary_1, "corollary-1"))


def _leaders(ranks):
    return first_choices(ranks).votes.argmax(axis=1)


RULES.register("cautious")(Rule(_leaders, lambda ranks, adversary: (_leaders(ranks), 0 * _leaders(ranks))))


@ATTACKS.register("whiten")
@dataclass(frozen=True)
class Whiten(Attack):
    options: ClassVar = (Option("--whitest", int, "Pixels set to white, from the first.", least=1, default=3),)

    whitest: int = 3

    def run(self, judge, which, generator):
        attempts = judge.images[which].clone()
        attempts.flatten(1)[:, : self.whitest] = judge.bounds[1]
        judge.fooled(attempts, which)


def _few(split, data_dir):
    data = datasets.load("digits", split)
    return replace(data, name="few-digits", images=datasets.ArrayImages(data.images.batch(range(60))),
                   labels=data.labels[:60])


DATASETS.register("few-digits")(datasets.DatasetEntry(_few, recipe="quick", ships=True))


@MODELS.register("linear")
def linear(channels, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * 64, classes))


RECIPES.register("quick")(Recipe("quick", "a test", "linear", keep=8, epochs=2, batch=20, rates=((1, 0.1),)))
'''
NAMES = {
    "sparsecert.schemes": "combs", "sparsecert.encodings": "grey", "sparsecert.certificates": "majority",
    "sparsecert.rules": "cautious", "sparsecert.attacks": "whiten", "sparsecert.datasets": "few-digits",
    "sparsecert.models": "linear", "sparsecert.recipes": "quick",
}  # fmt: skip
COMMANDS = """
from sparsecert.cli import main

for words in {commands!r}:
    try:
        main(words.split())
    except SystemExit as end:
        assert not end.code, words
"""
TRAIN = "train --data few-digits --scheme combs --teeth 4 --encoding grey --shade 0.25 --device cpu --out run"


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an installed package, and a model that was trained by what is in it."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "outside_things.py").write_text(THINGS)
    points = {group: {name: "outside_things"} for group, name in NAMES.items()}
    points["sparsecert.schemes"] |= {"broken": "outside_things_that_are_not", "unnamed": "outside_things"}
    points["sparsecert.attacks"] |= {"twice": "mine"}
    _install(folder, "things", points)
    _install(folder, "others", {"sparsecert.attacks": {"twice": "others"}})
    _run(folder, TRAIN, "certify run --data few-digits --limit 4 --device cpu --out run/certify.jsonl")
    return folder


def _install(folder: Path, name: str, points: dict[str, dict[str, str]]) -> None:
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    groups = [[f"[{group}]", *(f"{key} = {value}" for key, value in named.items())] for group, named in points.items()]
    (metadata / "entry_points.txt").write_text("\n".join(line for group in groups for line in group))


def _run(folder: Path, *commands: str) -> str:
    paths = os.pathsep.join([str(folder), str(Path(sparsecert.__file__).parent.parent)])
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS.format(commands=list(commands))],
        cwd=folder, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_there_is_one_of_each_kind() -> None:
    assert [registry.group for registry in REGISTRIES] == list(NAMES)


def test_help_lists_what_it_has(outside: Path) -> None:
    words = " ".join(
        _run(outside, "train --help", "attack --help", "certify --help", "train --scheme combs -h").split()
    )
    for name in (*NAMES.values(), "--teeth INTEGER"):
        assert name in words


def test_models_trained_by_it_are_loaded_certified_predicted_and_attacked(outside: Path) -> None:
    said = _run(
        outside,
        "certify run --data few-digits --limit 4 --rule cautious --device cpu --out cautious.jsonl",
        "predict run --data few-digits --limit 4 --rule cautious --device cpu --out predict.jsonl",
        "attack run --data few-digits --limit 2 --attack whiten --whitest 5 --rule cautious --device cpu --out a.jsonl",
        "info run",
        "report run/certify.jsonl",
    )
    assert "combs" in said
    assert '"whitest": 5' in (outside / "a.jsonl").read_text().splitlines()[0]
    assert '"kind": "combs", "height": 8, "width": 8, "parts": 4' in (outside / "cautious.jsonl").read_text()


def test_a_method_of_its_own_certifies_by_samples(outside: Path) -> None:
    _run(
        outside,
        "train --data few-digits --encoding grey --epochs 1 --device cpu --out drawn",
        "certify drawn --data few-digits --limit 2 --n0 10 --n 100 --bound majority --device cpu --out m.jsonl",
    )
    assert '"bound": "majority"' in (outside / "m.jsonl").read_text().splitlines()[0]


def test_what_cannot_be_imported_is_refused_when_it_is_chosen(outside: Path) -> None:
    with pytest.raises(AssertionError, match="scheme 'broken' cannot be loaded from outside_things_that_are_not"):
        _run(outside, "train --data digits --scheme broken --out broken")
    with pytest.raises(AssertionError, match="outside_things does not register scheme 'unnamed'"):
        _run(outside, "train --data digits --scheme unnamed --out broken")
    with pytest.raises(
        AssertionError, match=r"attack 'twice' is claimed by (mine|others) and (mine|others); uninstall"
    ):
        _run(outside, "attack run --data digits --attack twice")
    with pytest.raises(AssertionError, match="--teeth is for --scheme combs; add that, or leave it out"):
        _run(outside, "train --data digits --teeth 3 --out broken")


@pytest.mark.check
def test_a_ray_worker_sees_it(outside: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'sparsecert[ray]'")
    _run(outside, "certify run --data few-digits --limit 4 --ray auto --workers 1 --device cpu --out ray.jsonl")
    lines = [(outside / name).read_text().splitlines()[1:] for name in ("ray.jsonl", "run/certify.jsonl")]
    labels = [[line.partition('"seconds"')[0] for line in part] for part in lines]
    assert labels[0] == labels[1]
