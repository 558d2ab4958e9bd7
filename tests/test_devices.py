"""The same masks and, but for rounding, the same votes on every device that is here."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sparsecert import datasets
from sparsecert.attacks import AllMasks, Pointwise, Saliency
from sparsecert.datasets import folder
from sparsecert.datasets.views import RandomCrop
from sparsecert.encodings import MeanFill, NullChannels, ReplacedValues
from sparsecert.plain import AnalysisBySynthesis, AutoencoderRun, Autoencoders, plain_recipe
from sparsecert.procedures import Exact
from sparsecert.schemes import ESTIMATION, MAX_DRAWS, TRAINING, Lattice, RandomValues, Scheme, Uniform
from sparsecert.smoothed import Smoothed
from sparsecert.training import TrainingRun
from sparsecert.training.cuda_graph import GraphedSteps, step_each, step_function
from sparsecert.training.objective import CompiledObjective, objective
from sparsecert.training.recipes import RECIPES
from tests.attacks.means import nearest_mean
from tests.contracts import SCHEMES
from tests.helpers import Digits, write_photographs

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")


@pytest.mark.parametrize("scheme", [*SCHEMES, Uniform(50_176, 1_000), RandomValues(784, "0.1")], ids=str)
def test_masks_are_the_same_on_cpu_and_gpu(scheme: Scheme) -> None:
    draws = range(ESTIMATION + 5, ESTIMATION + 105)
    assert torch.equal(scheme.masks(3, range(7), draws), scheme.masks(3, range(7), draws, device="cuda").cpu())


def test_replaced_values_are_the_same_on_cpu_and_gpu() -> None:
    masks, images = RandomValues(784, "0.1").masks(0, 64, 1)[:, 0], torch.arange(64 * 784) % 256
    images = images.view(64, 1, 28, 28).float() / 255
    encoding = ReplacedValues()
    assert torch.equal(encoding(images, masks), encoding(images.cuda(), masks.cuda()).cpu())


@pytest.mark.parametrize("masks", ["minibatch", "sample"])
def test_captured_steps_of_random_values_are_the_steps_taken_one_by_one(masks: str) -> None:
    data, recipe = datasets.load("digits", "train"), replace(RECIPES["digits"].shortened(2), masks=masks)
    scheme, encoding = RandomValues(64, "0.5", 17), ReplacedValues(17)
    one, other = (TrainingRun(data, recipe, scheme, encoding, 0, torch.device("cuda")) for _ in range(2))
    captured = GraphedSteps(torch.device("cuda"))
    for _ in range(6):
        captured([one])
        step_each([other])
    for a, b in zip(one.model.parameters(), other.model.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0.05, atol=0.01)


@pytest.mark.parametrize("seed", [0, 5, (1 << 31) + 7, (1 << 63) + (1 << 31) + 11, (1 << 64) - 1])
@pytest.mark.parametrize(("units", "keep"), [(784, 45), (784, 44), (12, 1), (50_176, 1_000)])
def test_the_kernel_draws_what_the_tensor_operations_draw(seed: int, units: int, keep: int) -> None:
    from sparsecert.schemes import subsets, subsets_triton

    examples = torch.tensor([0, 1, 77, (1 << 32) - 1], device="cuda").repeat(100)
    draws = torch.tensor([TRAINING, 3, ESTIMATION + 5, MAX_DRAWS - 1], device="cuda").repeat_interleave(100)
    arguments = (seed, examples, draws, units, keep)
    assert torch.equal(subsets_triton.subsets(*arguments), subsets.drawn(*arguments))


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_votes_agree_but_for_rounding(trained: Path, digits: Digits, precision: str) -> None:
    images, _ = digits
    here, there = Smoothed.load(trained), Smoothed.load(trained, device="cuda")
    here.precision, there.precision = "fp32", precision
    on_cpu, on_gpu = here.certify(images, n0=100, n=2_000), there.certify(images, n0=100, n=2_000)
    moved = abs(on_cpu.counts - on_gpu.counts).sum() / 2
    assert (on_gpu.counts.sum(axis=1) == 2_000).all()
    assert moved <= 0.01 * on_cpu.counts.sum()
    assert on_gpu.invalid.sum() == 0


def test_the_callers_images_may_be_on_the_gpu(trained: Path, digits: Digits) -> None:
    images, _ = digits
    g = Smoothed.load(trained).to("cuda")
    assert g.device.type == "cuda"
    assert (g.predict(images.cuda(), n=50).counts == g.predict(images, n=50).counts).all()


def test_captured_steps_are_the_steps_taken_one_by_one() -> None:
    """Over two epochs of different learning rates, each with a last minibatch that is smaller, two runs at once."""
    data, device = datasets.load("digits", "train"), torch.device("cuda")
    recipe = RECIPES["digits"].shortened(2)
    for masks in ("minibatch", "sample"):
        pairs = [
            [
                TrainingRun(data, replace(recipe, masks=masks), Uniform(64, keep), encoding, 0, device)
                for keep, encoding in ((10, NullChannels()), (20, MeanFill(data.mean)))
            ]
            for _ in range(2)
        ]
        take_step = step_function(pairs[0])
        assert isinstance(take_step, GraphedSteps)
        for _ in range(pairs[0][0].steps):
            take_step(pairs[0])
            step_each(pairs[1])
        assert sum(graph is not None for graph in take_step.graphs.values()) == 2  # full minibatches, and the last
        for captured, plain in zip(*pairs, strict=True):
            assert captured.step == plain.step == int(captured.device_step)
            assert captured.metrics() == pytest.approx(plain.metrics(), rel=0.05)
            for one, other in zip(captured.model.parameters(), plain.model.parameters(), strict=True):
                torch.testing.assert_close(one, other, rtol=0.05, atol=0.01)


def test_captured_steps_of_autoencoders_are_the_steps_taken_one_by_one() -> None:
    data, recipe = datasets.load("mnist-sample"), replace(plain_recipe("mnist", "abs"), epochs=3, batch=8)
    one, other = (AutoencoderRun(data, recipe, 0, torch.device("cuda"), data) for _ in range(2))
    captured = GraphedSteps(torch.device("cuda"))
    for _ in range(5):
        captured([one])
        step_each([other])
    assert all(graph is not None for graph in captured.graphs.values())
    assert one.metrics() == pytest.approx(other.metrics(), rel=0.02)
    for a, b in zip(one.model.parameters(), other.model.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0.05, atol=0.01)


def test_analysis_by_synthesis_answers_on_a_gpu_as_on_the_cpu() -> None:
    torch.manual_seed(0)
    model, images = Autoencoders(candidates=200, steps=10).eval(), torch.rand(7, 1, 28, 28)
    labels = torch.arange(7)
    cpu, gpu = AnalysisBySynthesis(model), AnalysisBySynthesis(model, "cuda")
    for against in (None, labels):
        torch.testing.assert_close(gpu(images, against).cpu(), cpu(images, against), rtol=0.01, atol=1e-4)


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> datasets.Dataset:
    """Seventy photographs of two classes, shown as squares of 32 pixels."""
    root = tmp_path_factory.mktemp("photographs")
    write_photographs(root / "train", 70, (40, 48))
    return folder.load(root, "train", size=32)


def test_a_captured_step_sees_the_photographs_that_were_decoded_for_it(photographs: datasets.Dataset) -> None:
    """Not those of the step before, nor half of the next: by the sum of all its pixels, over three epochs."""
    recipe = replace(RECIPES["paper-imagenet"], model="resnet18-cifar", epochs=3, batch=16, keep=200)
    run = TrainingRun(photographs, recipe, Uniform(1024, 200), NullChannels(), 0, torch.device("cuda"), workers=2)
    sums = torch.zeros(1, dtype=torch.float64, device="cuda")
    inner = run._copies

    def copies(chosen: torch.Tensor) -> torch.Tensor:
        assert run.prefetcher is not None
        sums.add_(run.prefetcher.pixels[: len(chosen)].double().sum())
        return inner(chosen)

    run._copies = copies  # type: ignore[method-assign]
    assert isinstance(photographs.images, folder.FolderImages)
    with closing(run):
        take_step = step_function([run])
        assert isinstance(take_step, GraphedSteps)
        run.model.train()
        while run.step < run.steps:
            take_step([run])
    crops = [photographs.images.load_views(range(70), RandomCrop(0, epoch)) for epoch in range(3)]
    expected = sum(each.sum(dtype=np.float64) for each in crops)
    assert sums.item() == expected


def test_training_that_is_stopped_on_a_gpu_goes_on_with_its_momentum(tmp_path: Path) -> None:
    """In the layout that its weights have there."""
    data, device = datasets.load("digits", "train"), torch.device("cuda")
    recipe = replace(RECIPES["digits"].shortened(2), model="resnet18-cifar", precision="bf16", nesterov=True)
    before = TrainingRun(data, recipe, Uniform(64, 10), NullChannels(), 0, device)
    before.model.train()
    take_step = step_function([before])
    for _ in range(4):
        take_step([before])
    before.save_checkpoint(tmp_path)
    after = TrainingRun(data, recipe, Uniform(64, 10), NullChannels(), 0, device)
    after.resume(tmp_path / "checkpoint.safetensors")
    assert after.step == 4
    for one, other in zip(before.model.parameters(), after.model.parameters(), strict=True):
        momenta = [run.optimizer.state[w]["momentum_buffer"] for run, w in ((before, one), (after, other))]
        assert torch.equal(one, other)
        assert torch.equal(*momenta)
        assert momenta[1].stride() == other.stride()
    after.model.train()
    step_function([after])([after])
    assert np.isfinite(after.metrics()[0])


def test_the_compiled_objective_is_the_plain_one() -> None:
    device = torch.device("cuda")
    for copies, consistency in ((1, 0.0), (2, 3.0)):
        compiled = objective(device, "bf16", copies, consistency)
        assert isinstance(compiled, CompiledObjective)
        model = torch.nn.Sequential(torch.nn.Conv2d(6, 8, 3), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 10)).cuda()
        rows, labels = torch.rand(32, 6, 8, 8, device="cuda"), torch.arange(32 // copies, device="cuda") % 10
        loss, right = compiled(model, rows, labels)
        assert compiled.works
        plain = compiled.eager(model, rows, labels)
        assert loss.item() == pytest.approx(plain[0].item(), rel=0.02)
        assert right.item() == pytest.approx(plain[1].item(), abs=1)


@pytest.mark.parametrize("rule", ["plurality", "run-off", "pairwise"])
def test_all_masks_are_attacked_on_the_gpu(rule: str, digits: Digits) -> None:
    """Lines of attempts and gradients with images on the CPU, as attacks hand them over."""
    smoothed = Smoothed(nearest_mean().model, Lattice(8, 8, 8), classes=10).to("cuda")
    images, sure = digits[0][:6], smoothed.certify(digits[0][:6], Exact(rule))
    for attack in (Pointwise(restarts=2, rounds=1), Saliency()):
        found = attack(AllMasks(smoothed, rule), images, torch.from_numpy(sure.labels))
        again = smoothed.certify(found.adversarial, Exact(rule))
        assert found.answers.tolist() == again.labels.tolist()
        assert (found.distances[found.succeeded].numpy() > sure.radii[found.succeeded.numpy()]).all()
