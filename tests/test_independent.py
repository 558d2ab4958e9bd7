"""Independent training of images: the weights of a part depend on its own pixels alone, and files and reports say so.

That no perturbation in training or at test changes a certified answer is proved in `tests/proof/test_independent.py`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sparsecert import modelfile
from sparsecert.datasets import ArrayImages, Dataset
from sparsecert.encodings import Encoding, MeanFill, NullChannels
from sparsecert.errors import InputError
from sparsecert.schemes import FixedMasks, Partition, Spread
from sparsecert.training import TrainingRun
from sparsecert.training.cuda_graph import step_each
from sparsecert.training.recipe import VoteObjective
from sparsecert.training.recipes import RECIPES, Recipe
from tests.commands import sparsecert

RECIPE = replace(RECIPES["independent-mnist"], epochs=3, batch=50)
PARTS = Spread(8, 8, 9)


def _poisoned(data: Dataset, scheme: FixedMasks, parts: list[int], kind: str) -> Dataset:
    """The same labels; the pixels of these parts are others in every image."""
    assert isinstance(data.images, ArrayImages)
    pixels = data.images.pixels.copy().reshape(len(data), -1)
    theirs = scheme.table[parts].any(axis=0)
    chance = np.random.default_rng(0).integers(0, 256, pixels.shape, dtype=np.uint8)
    trigger = np.where(data.labels[:, None] == 3, 255, 0) + np.zeros_like(pixels)
    pixels[:, theirs] = {"noise": chance, "extreme": np.full_like(pixels, 255), "trigger": trigger}[kind][:, theirs]
    return replace(data, images=ArrayImages(pixels.reshape(data.images.pixels.shape)))


def _run(data: Dataset, recipe: Recipe = RECIPE, scheme: Any = PARTS, encoding: Encoding | None = None) -> TrainingRun:
    return TrainingRun(data, recipe, scheme, encoding or NullChannels(), 0, torch.device("cpu"))


def _finished(run: TrainingRun) -> TrainingRun:
    while run.step < run.steps:
        step_each([run])
    return run


def _differing(one: TrainingRun, other: TrainingRun, networks: int = 1) -> list[int]:
    """The parts with a weight, or a state of the optimizer, that is not the same bit for bit."""
    found: set[int] = set()
    for mine, theirs in zip(one.model.parameters(), other.model.parameters(), strict=True):
        states = ((run.optimizer.state[weight], weight) for run, weight in ((one, mine), (other, theirs)))
        tensors = [
            [weight.detach(), *(t for t in state.values() if t.shape == weight.shape)] for state, weight in states
        ]
        for a, b in zip(*tensors, strict=True):
            equal = (a.view(torch.int32) == b.view(torch.int32)).flatten(1).all(dim=1)
            found |= {*(~equal.view(networks, -1).all(dim=0)).nonzero().flatten().tolist()}
    return sorted(found)


@pytest.mark.parametrize("kind", ["noise", "extreme", "trigger"])
@pytest.mark.parametrize(
    "changes",
    [{}, {"precision": "bf16"}, {"optimizer": "sgd"}, {"model": "per-mask-ensemble"}],
    ids=lambda changes: "-".join(changes.values()) or "as it is",
)
def test_poisoned_pixels_change_their_own_parts_alone(few: Dataset, kind: str, changes: dict[str, Any]) -> None:
    recipe = replace(RECIPE, **changes)
    clean = _finished(_run(few, recipe))
    poisoned = _finished(_run(_poisoned(few, PARTS, [2, 7], kind), recipe))
    networks = 4 if recipe.model == "per-mask-ensemble" else 1
    assert _differing(clean, poisoned, networks) == [2, 7]


def test_a_part_that_diverges_leaves_the_others_alone(few: Dataset) -> None:
    """NaN and infinity in one part's weights go through the sum of the losses, and no further."""
    clean, broken = _run(few), _run(few)
    with torch.no_grad():
        broken.model.weights[0][4] = torch.nan
        broken.model.weights[1][5] = torch.inf
    assert _differing(_finished(clean), _finished(broken)) == [4, 5]
    with pytest.raises(InputError, match="training diverged"):
        broken.metrics()


def test_training_the_vote_does_mix_the_parts(few: Dataset) -> None:
    """What makes the difference: the same networks, by an objective of the whole vote."""
    recipe = replace(RECIPE, independent=False, vote=VoteObjective(epochs=3, rate=0.01, target=0.3))
    clean, poisoned = _run(few, recipe), _run(_poisoned(few, PARTS, [2, 7], "noise"), recipe)
    assert _differing(_finished(clean), _finished(poisoned)) == [*range(9)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vote": VoteObjective(1, 0.1, 0.3)}, "needs vote = None"),
        ({"masks": "sample"}, "needs masks = all"),
        ({"masks": "sample", "copies": 2, "consistency": 1.0}, "needs masks = all"),
        ({"augment": "crop-flip"}, "needs augment = none, else the parts mix, got crop-flip"),
        ({"normalise": True}, "needs normalise = False"),
    ],
)
def test_settings_that_mix_the_parts_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"independent training {message}"):
        replace(RECIPE, **changes)


def test_models_and_encodings_that_mix_the_parts_are_refused(few: Dataset) -> None:
    with pytest.raises(InputError, match="needs separate networks for the masks, such as per-mask, got"):
        _run(few, replace(RECIPE, model="digits-cnn"))
    with pytest.raises(InputError, match="needs null-channels without mean and std"):
        _run(few, encoding=NullChannels(0.3, 0.2))
    assert isinstance(few.images, ArrayImages)
    two = replace(few, images=ArrayImages(few.images.pixels.repeat(2, axis=1)), mean=(0.3, 0.3), std=(1.0, 1.0))
    with pytest.raises(InputError, match="needs null-channels without mean and std"):
        _run(two, encoding=MeanFill([0.3, 0.3]))  # of two channels, as many as null-channels makes of one


@pytest.fixture
def trained(tmp_path: Path) -> dict[str, Path]:
    """Certified records of an independent run and of one by the vote."""
    found = {}
    for recipe in ("independent-mnist", "vote-mnist"):
        out = tmp_path / recipe
        options = ["--recipe", recipe, "--epochs", 5, "--precision", "fp32", "--batch", 500]
        options += ["--scheme", "lattice", "--parts", 8]
        done = sparsecert("train", "--data", "digits", *options, "--out", out)
        assert done.returncode == 0, done.stderr
        done = sparsecert("certify", out, "--data", "digits", "--limit", 5)
        assert done.returncode == 0, done.stderr
        found[recipe] = out
    return found


def test_files_and_reports_say_whether_training_values_are_covered(trained: dict[str, Path]) -> None:
    words = "radii hold if the same units are perturbed in the training inputs too"
    for recipe, out in trained.items():
        covered = recipe == "independent-mnist"
        header = modelfile.read_header(out)["facts"]
        assert header.get("independent", False) is covered
        assert header["training"]["settings"]["recipe"].get("independent", False) is covered
        run = json.loads((out / "certify.jsonl").read_text().splitlines()[0])["run"]
        assert run.get("independent", False) is covered
        for form in ("terminal", "markdown"):
            reported = " ".join(sparsecert("report", out / "certify.jsonl", "--format", form).stdout.split())
            assert (words in reported) is covered
        recertified = sparsecert("report", out / "certify.jsonl", "--rule", "plurality").stdout
        assert (words in " ".join(recertified.split())) is covered


def test_overlapping_masks_are_parts_as_well(few: Dataset) -> None:
    """A pixel is then in several of them, and the certificate counts each."""
    scheme = Partition(64, 4, rounds=2)
    theirs = scheme.table[:, scheme.table[1].argmax()].nonzero()[0]
    data = few.images.batch(range(len(few))).reshape(len(few), -1)  # type: ignore[call-overload]
    data[:, scheme.table[1].argmax()] = 255
    poisoned = replace(few, images=ArrayImages(data.reshape(len(few), 1, 8, 8)))
    found = _differing(_finished(_run(few, scheme=scheme)), _finished(_run(poisoned, scheme=scheme)))
    assert found == theirs.tolist()
    assert len(found) == 2


def test_the_recipe_is_independent_and_older_ones_say_nothing_of_it() -> None:
    assert RECIPES["independent-mnist"].to_dict()["independent"] is True
    others = [name for name, recipe in RECIPES.items() if "independent" in recipe.to_dict()]
    assert others == ["independent-mnist"]
    assert RECIPES["independent-mnist"].shortened(3).independent
