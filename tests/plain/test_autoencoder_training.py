"""Training autoencoders: order, distortions and steps are as described, a run resumes, and its two files classify."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from sparsecert import datasets, modelfile, plain
from sparsecert.cli import cli
from sparsecert.datasets import Dataset
from sparsecert.errors import InputError
from sparsecert.plain import (
    AnalysisBySynthesis,
    AutoencoderRecipe,
    AutoencoderRun,
    Autoencoders,
    plain_recipe,
    train_plain,
)
from sparsecert.plain.evaluation import accuracy
from sparsecert.plain.warps import CHANCE, UNIFORMS, warp
from sparsecert.training.cuda_graph import step_each
from tests.datasets.made import write_small_mnist

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def sample() -> Dataset:
    return datasets.load("mnist-sample")


@pytest.fixture(scope="module")
def few_test(sample: Dataset) -> Dataset:
    return replace(sample, images=datasets.ArrayImages(sample.images.batch(range(8))), labels=sample.labels[:8])


def _recipe(**changes: int) -> AutoencoderRecipe:
    recipe = plain_recipe("mnist", "abs")
    assert isinstance(recipe, AutoencoderRecipe)
    return replace(recipe, **{"epochs": 1, "batch": 2, "candidates": 20, "steps": 2, **changes})  # type: ignore[arg-type]


def test_the_recipe_is_that_of_schott() -> None:
    recipe = plain_recipe("mnist", "abs")
    assert isinstance(recipe, AutoencoderRecipe)
    assert (recipe.rate, recipe.batch, recipe.candidates, recipe.steps) == (0.003, 128, 8000, 50)
    assert [recipe.rate_at(done) for done in (0, 0.3, 1)] == [0.003] * 3
    assert recipe.epochs * -(-60_000 // 1_280) == pytest.approx(29_000, rel=0.01)
    with pytest.raises(InputError, match="a plain network on digits must be one of cnn, binarized, robust, got 'abs'"):
        plain_recipe("digits", "abs")


def test_each_class_goes_through_its_own_images(sample: Dataset) -> None:
    """All of them once before any of them twice, whatever their number; each time in another order."""
    run = AutoencoderRun(sample, _recipe(epochs=9, batch=3), 5, CPU, sample)
    assert run.epoch_steps == 4  # of 30 images each: 100 in all
    parts = []
    for epoch in range(9):
        run.step = epoch * run.epoch_steps
        parts.append(run.epoch_order())
        assert parts[-1].shape == (12, 10)
    whole = torch.cat(parts)
    for number in range(10):
        own = np.flatnonzero(sample.labels == number).tolist()
        cycles = whole[:, number].split(len(own))  # type: ignore[no-untyped-call]
        for cycle in cycles[:-1]:
            assert sorted(cycle.tolist()) == own
        assert cycles[0].tolist() != cycles[1].tolist()
        assert len(set(cycles[-1].tolist())) == len(cycles[-1])


def test_distortions_hit_some_images_and_leave_the_others_as_they_are() -> None:
    generator = torch.Generator().manual_seed(0)
    images, uniforms = torch.rand(400, 1, 28, 28, generator=generator), torch.rand(400, UNIFORMS, generator=generator)
    warped = warp(images, uniforms)
    same = (warped == images).flatten(1).all(dim=1)
    assert torch.equal(same, (uniforms[:, :4] >= CHANCE).all(dim=1))
    assert 0.5 < same.float().mean() < 0.8  # 0.9^4 = 0.66
    assert (warped >= 0).all()
    assert (warped <= 1 + 1e-6).all()


def test_each_distortion_is_what_its_name_says() -> None:
    """Of a ramp along x: a zoom scales it, a shear adds a ramp along y, a skew bends it, knots move it."""
    ramp = torch.linspace(-1, 1, 28).expand(1, 1, 28, 28)
    y = torch.linspace(-1, 1, 28)[:, None]
    inner = slice(6, 22)

    def warped(kind: int, place: int) -> torch.Tensor:
        uniforms = torch.full((1, UNIFORMS), 0.5)
        uniforms[0, kind], uniforms[0, place] = 0.0, 1.0
        return warp(ramp, uniforms)[0, 0, inner, inner]

    x, y = ramp[0, 0, inner, inner], y.expand(28, 28)[inner, inner]
    torch.testing.assert_close(warped(0, 4), 1.1 * x)
    torch.testing.assert_close(warped(1, 6), x + 0.15 * y)
    torch.testing.assert_close(warped(2, 8), x / (1 + 0.1 * x))
    moved = warped(3, 10 + 5) - x  # the knot at a third of the way down and right
    assert 0 < moved.max() <= 0.1
    assert moved.argmax() // 16 + 6 == pytest.approx(9, abs=1)


def test_noise_is_normal_and_each_steps_own(sample: Dataset) -> None:
    run = AutoencoderRun(sample, _recipe(), 0, CPU, sample)
    draws = []
    for _ in range(30):
        draws.append(run._drawn(torch.arange(100).view(10, 10))[1])
        run.device_step += 1
    noise = torch.stack(draws)
    assert noise.mean().item() == pytest.approx(0, abs=0.03)
    assert noise.square().mean().item() == pytest.approx(1, abs=0.04)
    assert noise.pow(4).mean().item() == pytest.approx(3, abs=0.3)
    for one, other in ((noise[1:], noise[:-1]), (noise[..., 1:], noise[..., :-1])):  # of steps, of latents
        assert (one * other).mean().item() == pytest.approx(0, abs=0.03)


def test_a_step_is_one_of_adam_on_every_class(sample: Dataset) -> None:
    """Against a loop written out, at the rate of the recipe, on the mean of each class."""
    run = AutoencoderRun(sample, _recipe(), 3, CPU, sample)
    model = Autoencoders(candidates=20, steps=2, seed=3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    losses = []
    for step in range(2):
        run.prepare()
        images, noise = run._drawn(run.order[2 * step : 2 * step + 2])
        step_each([run])
        each = model(images, noise)[1]
        loss = torch.stack([each[:, number].mean() for number in range(10)]).sum()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item() / 10)
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(run.model.state_dict()[name], tensor, rtol=0, atol=2e-4)
    loss_so_far, right = run.metrics()
    assert loss_so_far == pytest.approx(np.mean(losses), rel=1e-4)
    assert 0.3 < right < 1


def test_a_run_resumes_to_the_same_weights(sample: Dataset, tmp_path: Path) -> None:
    whole, broken, resumed = (AutoencoderRun(sample, _recipe(epochs=2), 4, CPU, sample) for _ in range(3))
    step_each([whole, broken])
    broken.save_checkpoint(tmp_path)
    resumed.resume(tmp_path / "checkpoint.safetensors")
    step_each([whole, resumed])
    assert resumed.metrics() == whole.metrics()
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[name], tensor), name
    other = AutoencoderRun(sample, _recipe(epochs=2), 5, CPU, sample)
    with pytest.raises(InputError, match="belongs to another run \\(seed differs\\)"):
        other.resume(tmp_path / "checkpoint.safetensors")


def test_training_writes_two_files_of_the_same_weights(sample: Dataset, few_test: Dataset, tmp_path: Path) -> None:
    path = train_plain(sample, few_test, _recipe(batch=5), tmp_path)
    assert path == tmp_path / modelfile.MODEL_NAME
    (model, facts), (binarized, other_facts) = (plain.load(one) for one in (path, tmp_path / plain.BINARIZED_NAME))
    assert isinstance(model, Autoencoders)
    assert isinstance(binarized, Autoencoders)
    assert (model.binarized, binarized.binarized) == (False, True)
    for name, tensor in model.state_dict().items():
        assert torch.equal(binarized.state_dict()[name], tensor)
    assert facts["test"]["accuracy"] == accuracy(AnalysisBySynthesis(model), few_test, CPU)
    assert other_facts["test"]["accuracy"] == accuracy(AnalysisBySynthesis(binarized), few_test, CPU)
    before = path.read_bytes()
    train_plain(sample, few_test, _recipe(batch=5), tmp_path)  # finished already
    assert path.read_bytes() == before
    defender = plain.defender_for(tmp_path / plain.BINARIZED_NAME, sample)
    assert isinstance(defender, plain.SynthesisDefender)
    assert defender.model.binarized


def test_other_data_are_refused(sample: Dataset, few: Dataset) -> None:
    with pytest.raises(InputError, match=r"the autoencoders take images of shape \(1, 28, 28\), not \(1, 8, 8\)"):
        AutoencoderRun(few, _recipe(), 0, CPU, few).check_fit()
    some = np.flatnonzero(sample.labels != 3)
    lacking = replace(sample, images=datasets.ArrayImages(sample.images.batch(some)), labels=sample.labels[some])
    with pytest.raises(InputError, match="every class must have a training image, class 3 of 10 has none"):
        AutoencoderRun(lacking, _recipe(), 0, CPU, sample)


def test_the_command_line_tells_both_accuracies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_small_mnist(tmp_path / "data")
    monkeypatch.setitem(plain.PLAIN_RECIPES["mnist"], "abs", _recipe(steps=0, batch=10))
    folders = ["--data-dir", str(tmp_path / "data"), "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(cli, ["train", "--data", "mnist", "--plain", "abs", *folders, "--device", "cpu"])
    assert done.exit_code == 0, done.exception
    names = modelfile.MODEL_NAME, plain.BINARIZED_NAME
    model, binarized = (plain.load(tmp_path / "run" / name)[1]["test"]["accuracy"] for name in names)
    assert done.stdout.splitlines() == [
        f"accuracy on 100 test images: {model:.2%}",
        f"on the same images binarized: {binarized:.2%}",
        f"wrote {tmp_path / 'run' / 'model.safetensors'}",
    ]


@pytest.mark.check
def test_a_short_training_learns_to_classify(sample: Dataset) -> None:
    """36 steps on three images of each class, of the hundred that ship; chance would be right on a tenth."""
    run = AutoencoderRun(sample, _recipe(epochs=9, batch=3, candidates=300, steps=5), 0, CPU, sample)
    while run.step < run.steps:
        step_each([run])
    assert accuracy(AnalysisBySynthesis(run.model.eval()), sample, CPU) > 0.5
