"""Training plain networks: they learn, hold out where they were trained to, resume, and their files are their own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import sparsecert as sc
from sparsecert import datasets, modelfile, plain
from sparsecert.attacks import Pointwise, Saliency
from sparsecert.cli import cli
from sparsecert.datasets import Dataset
from sparsecert.errors import InputError
from sparsecert.plain import PlainRecipe, PlainRun, networks, plain_recipe, train_plain
from sparsecert.plain.evaluation import accuracy
from sparsecert.progress import OnProgress
from sparsecert.training import Stop, train
from sparsecert.training.cuda_graph import GraphedSteps, step_each
from sparsecert.training.recipes import RECIPES
from sparsecert.training.schedule import Run
from tests.commands import sparsecert
from tests.helpers import same_weights

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def data() -> Dataset:
    return datasets.load("digits", "train")


@pytest.fixture(scope="module")
def unseen() -> Dataset:
    return datasets.load("digits", "test")


@pytest.fixture(scope="module")
def runs(data: Dataset, unseen: Dataset, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folder of each kind, trained on the digits for fewer epochs than it is meant to be."""
    folders = {kind: tmp_path_factory.mktemp(kind) for kind in plain.PLAIN_RECIPES["digits"]}
    for kind, out in folders.items():
        train_plain(data, unseen, replace(plain_recipe("digits", kind), epochs=5), out)
    return folders


def test_the_command_line_offers_every_kind() -> None:
    (option,) = (option for option in cli.commands["train"].params if option.name == "plain_kind")
    assert option.type.choices == tuple(plain.PLAIN_RECIPES["mnist"])  # type: ignore[attr-defined]


def test_the_recipe_of_the_robust_network_is_that_of_madry() -> None:
    recipe = plain_recipe("mnist", "robust")
    assert (recipe.eps, recipe.ascent_step, recipe.ascent_steps) == (0.3, 0.01, 40)
    assert recipe.network == "two-convolutions"
    assert "Madry et al. 2018" in recipe.source


@pytest.mark.parametrize(
    ("network", "weights", "shapes"),
    [
        ("four-convolutions", 248_882, [(20, 24, 24), (70, 11, 11), (256, 5, 5), (10, 1, 1)]),
        ("two-convolutions", 3_274_634, [(32, 28, 28), (64, 14, 14)]),
    ],
)
def test_the_networks_are_as_described(network: str, weights: int, shapes: list[tuple[int, ...]]) -> None:
    model = networks.build(network, 1, 10)
    seen: list[tuple[int, ...]] = []
    for part in model.modules():
        if isinstance(part, torch.nn.Conv2d):
            part.register_forward_hook(lambda _module, _given, scores: seen.append(tuple(scores.shape[1:])))
    assert model.eval()(torch.zeros(1, 1, 28, 28)).shape == (1, 10)
    assert seen == shapes
    assert sum(weight.numel() for weight in model.parameters()) == weights


def test_a_rate_cycles_and_eps_rises() -> None:
    recipe = replace(plain_recipe("mnist", "robust"), rate=1.0, warm_up=0.25, ramp=0.5)
    assert [recipe.rate_at(done) for done in (0, 0.125, 0.25, 0.625, 1)] == [0, 0.5, 1, 0.5, 0]
    assert [recipe.eps_at(done) for done in (0, 0.25, 0.5, 1)] == [0, 0.15, 0.3, 0.3]
    assert replace(recipe, ramp=0.0).eps_at(0) == 0.3


def test_the_networks_learn(runs: dict[str, Path], unseen: Dataset) -> None:
    for kind, out in runs.items():
        model, facts = plain.load(out)
        assert facts["test"]["accuracy"] == accuracy(model, unseen, CPU) > 0.85, kind


def test_the_robust_network_withstands_what_it_was_trained_against(runs: dict[str, Path], unseen: Dataset) -> None:
    recipe, chosen = plain_recipe("digits", "robust"), np.arange(len(unseen))
    (robust, facts), (cnn, _) = (plain.load(runs[kind]) for kind in ("robust", "cnn"))
    assert facts["test"]["attacked"] == len(unseen)
    assert facts["test"]["accuracy_under_attack"] == accuracy(robust, unseen, CPU, chosen, recipe)
    assert facts["test"]["accuracy_under_attack"] > accuracy(cnn, unseen, CPU, chosen, recipe)


def test_a_step_of_plain_training_is_a_step_of_adam(few: Dataset, unseen: Dataset) -> None:
    """Against a loop written out: the first epoch's order, the rates of one cycle, the mean cross-entropy."""
    recipe = replace(plain_recipe("digits", "cnn"), epochs=1, batch=64)
    run = PlainRun(few, recipe, 3, CPU, unseen)
    while run.step < run.steps:
        step_each([run])
    model = networks.build("digits-cnn", 1, 10, seed=3)
    optimizer = torch.optim.Adam(model.parameters())
    images = torch.from_numpy(few.images.batch(range(150))).float() / 255
    for number, chosen in enumerate(torch.split(run.order, 64)):
        optimizer.param_groups[0]["lr"] = recipe.rate_at((number + 0.5) / 3)
        labels = torch.from_numpy(few.labels)[chosen]
        loss = torch.nn.functional.cross_entropy(model(images[chosen]), labels, reduction="sum")
        optimizer.zero_grad()
        (loss / len(chosen)).backward()
        optimizer.step()
    assert sorted(run.order.tolist()) == list(range(150))
    for name, tensor in model.state_dict().items():
        found = run.model.state_dict()[name]
        torch.testing.assert_close(found, tensor, rtol=0, atol=1e-4)  # Adam magnifies rounding; a step moves by 1e-3


def _short(kind: str) -> PlainRecipe:
    return replace(plain_recipe("digits", kind), epochs=2, batch=40, ramp=0.3 if kind == "robust" else 0.0)


def _append_to(reported: list[Any], stop_after: int | None = None) -> OnProgress:
    def on_progress(done: int, steps: int, **metrics: float) -> None:
        reported.append((done, steps, metrics))
        if done == stop_after:
            raise Stop

    return on_progress


@pytest.mark.parametrize("kind", ["cnn", "robust"])
def test_a_run_that_was_stopped_ends_in_the_same_weights(
    few: Dataset, unseen: Dataset, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stopped in the middle of the first epoch of four batches, at its end, and in the second."""
    monkeypatch.setattr("sparsecert.training.loop.PROGRESS_SECONDS", 0.0)
    wanted: list[Any] = []
    train_plain(few, unseen, _short(kind), tmp_path / "whole", seed=4, on_progress=_append_to(wanted))
    reported: list[Any] = []
    resumed: dict[str, Any] = {"out": tmp_path / "stopped", "seed": 4}
    for last in (2, 4, 5):
        with pytest.raises(Stop):
            train_plain(few, unseen, _short(kind), **resumed, on_progress=_append_to(reported, stop_after=last))
        assert modelfile.read(tmp_path / "stopped" / "checkpoint.safetensors")[1]["step"] == last
    train_plain(few, unseen, _short(kind), **resumed, checkpoint_seconds=0, on_progress=_append_to(reported))
    assert reported == wanted
    assert not (tmp_path / "stopped" / "checkpoint.safetensors").exists()
    whole, stopped = (tmp_path / name / "model.safetensors" for name in ("whole", "stopped"))
    assert whole.read_bytes() == stopped.read_bytes()


def test_networks_with_batch_norm_resume_too(tmp_path: Path) -> None:
    """The MNIST network, on the few images that ship with the package."""
    sample = datasets.load("mnist-sample")
    recipe = replace(plain_recipe("mnist", "binarized"), epochs=1, batch=50)
    whole, broken, resumed = (PlainRun(sample, recipe, 0, CPU, sample) for _ in range(3))
    step_each([whole, broken])
    broken.save_checkpoint(tmp_path)
    resumed.resume(tmp_path / "checkpoint.safetensors")
    step_each([whole, resumed])
    assert resumed.metrics() == whole.metrics()
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[name], tensor), name


def test_another_seed_gives_another_network_and_is_refused_in_the_same_folder(
    few: Dataset, unseen: Dataset, tmp_path: Path
) -> None:
    recipe = _short("cnn")
    train_plain(few, unseen, recipe, tmp_path / "a")
    before = (tmp_path / "a" / "model.safetensors").read_bytes()
    with pytest.raises(InputError, match="belongs to another run \\(seed differs\\)"):
        train_plain(few, unseen, recipe, tmp_path / "a", seed=1)
    train_plain(few, unseen, recipe, tmp_path / "a")  # finished already: left as it is
    assert (tmp_path / "a" / "model.safetensors").read_bytes() == before
    train_plain(few, unseen, recipe, tmp_path / "b", seed=1)
    assert not same_weights(tmp_path / "b", tmp_path / "a")
    with pytest.raises(InputError, match="belongs to another run"):
        train(few, RECIPES["digits"].shortened(1), tmp_path / "a")


def test_where_a_step_cannot_be_captured_training_goes_on(
    few: Dataset, unseen: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(GraphedSteps):
        def _launch(self, runs: Sequence[Run]) -> None:
            for run in runs:
                run.train_step(run.batch)

    def refuse(graph: object, pool: object) -> None:
        raise RuntimeError("operation not permitted when stream is capturing\nmore")

    monkeypatch.setattr("torch.cuda.device", nullcontext)
    monkeypatch.setattr("torch.cuda.CUDAGraph", object)
    monkeypatch.setattr("torch.cuda.graph", refuse)
    one, other = (PlainRun(few, _short("robust"), 0, CPU, unseen) for _ in range(2))
    falling_back = Failing(CPU)
    falling_back([one])
    with pytest.warns(
        UserWarning, match=r"cannot be captured here \(operation not permitted when stream is capturing\)"
    ):
        falling_back([one])
    falling_back([one])
    for _ in range(3):
        step_each([other])
    assert one.step == other.step == int(one.device_step) == 3
    for weights, others in zip(one.model.parameters(), other.model.parameters(), strict=True):
        assert torch.equal(weights, others)


def test_a_file_gives_back_the_network_that_was_saved(tmp_path: Path) -> None:
    architecture = {"network": "four-convolutions", "channels": 1, "classes": 10, "binarized": True}
    model = networks.build(**architecture, seed=5).eval()  # type: ignore[arg-type]
    plain.save(tmp_path / "m.safetensors", model, architecture, {"data": "mnist"})
    loaded, facts = plain.load(tmp_path / "m.safetensors")
    images = torch.rand(3, 1, 28, 28)
    assert facts == {"data": "mnist"}
    assert torch.equal(loaded(images), model(images))
    assert torch.equal(loaded((images > 0.5).float()), model(images))


def test_defenders_answer_and_are_attacked(runs: dict[str, Path], unseen: Dataset) -> None:
    images, labels = torch.from_numpy(unseen.images.batch(range(6))).float() / 255, torch.from_numpy(unseen.labels[:6])
    for kind, out in runs.items():
        defender = plain.defender_for(out, unseen)
        assert torch.equal(defender.answers(images).labels, plain.load(out)[0](images).argmax(dim=1))
        assert Pointwise(restarts=1)(defender, images, labels).succeeded.any()
        if kind == "binarized":
            with pytest.raises(InputError, match="a binarized network has zero gradients; use a black-box attack"):
                Saliency()(defender, images, labels)
        else:
            assert Saliency()(defender, images, labels).succeeded.any()


def test_plain_and_smoothed_files_are_told_apart(runs: dict[str, Path], trained: Path, tmp_path: Path) -> None:
    assert plain.is_plain(runs["cnn"])
    assert not plain.is_plain(trained)
    with pytest.raises(InputError, match=r"holds a plain network, which has no scheme .* sparsecert train without"):
        sc.Smoothed.load(runs["cnn"])
    with pytest.raises(InputError, match="is not the file of a plain network"):
        plain.load(trained)
    with pytest.raises(InputError, match="does not exist"):
        plain.defender_for(tmp_path / "none", datasets.load("digits"))
    with pytest.raises(InputError, match=r"was trained on other images than mnist-sample has: \[1, 8, 8\]"):
        plain.defender_for(runs["cnn"], datasets.load("mnist-sample"))


def test_refusals(few: Dataset, tmp_path: Path) -> None:
    recipe = plain_recipe("digits", "robust")
    for changes, message in (
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"rate": 0.0}, "rate must be positive"),
        ({"eps": 1.5}, "eps must be 0, or at most 1"),
        ({"ascent_steps": 0}, "eps must be 0, or at most 1 with steps to take"),
        ({"binarized": True}, "has no gradients for adversarial training"),
        ({"precision": "fp8"}, "precision must be one of fp32, bf16"),
        ({"ramp": 1.0}, r"ramp must be in \[0, 1\)"),
    ):
        with pytest.raises(InputError, match=message):
            replace(recipe, **changes)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="plain networks are trained on mnist or digits, got 'cifar10'"):
        plain_recipe("cifar10", "cnn")
    with pytest.raises(InputError, match="must be one of cnn, binarized, robust, abs, got 'resnet'"):
        plain_recipe("mnist", "resnet")
    with pytest.raises(InputError, match=r"two-convolutions does not take images of shape \(1, 8, 8\)"):
        PlainRun(few, plain_recipe("mnist", "robust"), 0, CPU, few).check_fit()
    with pytest.raises(InputError, match="mnist-sample has other images or classes than digits"):
        train_plain(few, datasets.load("mnist-sample"), recipe, tmp_path)


def test_the_command_line_trains_and_says_how_often_the_network_is_right(tmp_path: Path) -> None:
    arguments = ["--epochs", 1, "--batch", 200, "--out", tmp_path / "run"]
    done = sparsecert("train", "--data", "digits", "--plain", "robust", *arguments)
    assert done.returncode == 0, done.stderr
    facts = plain.load(tmp_path / "run")[1]["test"]
    assert done.stdout.splitlines() == [
        f"accuracy on 500 test images: {facts['accuracy']:.2%}",
        f"under L-infinity PGD (7 steps, eps 0.1), on 500 of them: {facts['accuracy_under_attack']:.2%}",
        f"wrote {tmp_path / 'run' / 'model.safetensors'}",
    ]
    certify = CliRunner().invoke(cli, ["certify", str(tmp_path / "run"), "--data", "digits"])
    assert isinstance(certify.exception, InputError)
    assert "holds a plain network" in str(certify.exception)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--keep", "5"], "--keep is for training on ablated inputs"),
        (["--encoding", "null-channels"], "--encoding is for training on ablated inputs"),
        (["--recipe", "digits"], "--recipe is for training on ablated inputs"),
        (["--precision", "bf16"], "--precision is for the attack steps of --plain robust"),
        (["--epochs", "0"], "epochs must be at least 1"),
    ],
)
def test_options_that_do_not_apply_are_refused(options: list[str], message: str, tmp_path: Path) -> None:
    arguments = ["train", "--data", "digits", "--plain", "cnn", "--out", str(tmp_path / "run"), *options]
    result = CliRunner().invoke(cli, arguments)
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)
    assert not (tmp_path / "run").exists()
