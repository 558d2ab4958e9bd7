"""Training: the paper's recipes, masks and augmentation as pure functions, and runs that survive being killed."""

from __future__ import annotations

import copy
import itertools
import json
import math
import os
import signal
import subprocess
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sparsecert import datasets, modelfile
from sparsecert.datasets import ArrayImages, Dataset, folder
from sparsecert.datasets.views import RandomCrop
from sparsecert.encodings import MeanFill, NullChannels, ReplacedValues
from sparsecert.errors import InputError
from sparsecert.procedures import Fixed, procedure_for
from sparsecert.registry import MODELS
from sparsecert.schemes import TRAINING, Lattice, RandomValues, Spread, Uniform
from sparsecert.smoothed import Smoothed
from sparsecert.training import Stop, TrainingRun, default_encoding, train, train_many
from sparsecert.training.augment import random_shifts, shift_and_flip
from sparsecert.training.batch_norm import split_batch_norm
from sparsecert.training.cuda_graph import step_each
from sparsecert.training.objective import CompiledObjective, Objective, divergence, objective, vote_loss
from sparsecert.training.recipe import VoteObjective
from sparsecert.training.recipes import RECIPES, Recipe, recipe_for
from tests.commands import command, sparsecert
from tests.helpers import Digits, same_weights, wait_until, write_photographs

QUICK = RECIPES["digits"].shortened(2)


def _run(data: Dataset, recipe: Recipe, **changes: Any) -> TrainingRun:
    settings = {"scheme": Uniform(64, 10), "encoding": NullChannels(), "seed": 0, "device": torch.device("cpu")}
    return TrainingRun(data, recipe, **{**settings, **changes})


def _log(folder: Path) -> list[dict[str, Any]]:
    """Without the times, which no two runs share."""
    lines = [json.loads(line) for line in (folder / "training.jsonl").read_text().splitlines()]
    assert all(line.pop("seconds") > 0 for line in lines)
    return lines


def test_the_recipes_are_the_papers() -> None:
    """Tables 10, 11 and 12 of the appendix."""
    mnist, cifar, imagenet = (RECIPES[f"paper-{name}"] for name in ("mnist", "cifar10", "imagenet"))
    assert (mnist.epochs, mnist.batch, mnist.momentum, mnist.weight_decay) == (400, 128, 0.9, 0)
    assert (cifar.epochs, cifar.batch, cifar.momentum, cifar.weight_decay) == (400, 128, 0.9, 0.0005)
    assert (imagenet.epochs, imagenet.batch, imagenet.momentum, imagenet.weight_decay) == (36, 256, 0.9, 0.0001)
    for recipe in (mnist, cifar):
        assert {recipe.rate(epoch) for epoch in range(1, 201)} == {0.01}
        assert {recipe.rate(epoch) for epoch in range(201, 401)} == {0.001}
    assert [imagenet.rate(epoch) for epoch in range(1, 37)] == [0.1] * 21 + [0.01] * 10 + [0.001] * 5
    assert (mnist.augment, cifar.augment, imagenet.augment) == ("none", "crop-flip", "resized-crop-flip")
    assert {recipe.masks for recipe in (mnist, cifar, imagenet)} == {"minibatch"}
    assert (mnist.model, cifar.model, imagenet.model) == ("mnist-cnn", "resnet18-cifar", "resnet50")
    assert (mnist.normalise, cifar.normalise, imagenet.normalise) == (False, False, True)


@pytest.mark.parametrize("name", [name for name, recipe in RECIPES.items() if recipe.schedule == "steps"])
def test_a_shortened_recipe_falls_at_the_same_shares(name: str) -> None:
    recipe = RECIPES[name]
    short = recipe.shortened(4)
    assert short.epochs == 4
    assert [rate for _, rate in short.rates] == [rate for _, rate in recipe.rates]
    assert short.rate(1) == recipe.rate(1)
    assert recipe.shortened(1).rate(1) == recipe.rate(1)
    assert short.rate(4) == recipe.rate(recipe.epochs)
    assert recipe.shortened(None) is recipe
    assert json.loads(json.dumps(recipe.to_dict()))["name"] == name


def test_one_cycle_rises_to_its_peak_and_falls_to_zero() -> None:
    recipe = replace(QUICK, schedule="one-cycle", rates=((1, 0.4),), warm_up=0.25, epochs=8)
    for cycle in (recipe, recipe.shortened(80)):
        shares = [(epoch + 0.1 * tenth) / cycle.epochs for epoch in range(cycle.epochs) for tenth in range(10)]
        rates = [cycle.rate(epoch + 1, 0.1 * tenth) for epoch in range(cycle.epochs) for tenth in range(10)]
        expected = [0.4 * share / 0.25 if share < 0.25 else 0.4 * (1 - share) / 0.75 for share in shares]
        assert rates == pytest.approx(expected)
        assert max(rates) == pytest.approx(0.4)
    assert replace(recipe, warm_up=0.0).rate(1) == 0.4


def test_a_network_that_cannot_be_compiled_is_trained_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the loss and the gradients of the plain objective, after one warning."""
    calls = []

    def compile_badly(plain: Objective, dynamic: bool) -> Objective:
        def quick(*arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
            calls.append(arguments)
            raise RuntimeError("no C compiler\nat all")

        return quick

    monkeypatch.setattr(torch, "compile", compile_badly)
    plain = objective(torch.device("cpu"), "bf16")
    compiled = CompiledObjective(plain)
    model, copies, labels = torch.nn.Linear(5, 3), torch.rand(7, 5), torch.arange(7) % 3
    with pytest.warns(UserWarning, match=r"cannot be compiled here \(no C compiler\); training continues, more slowly"):
        loss, right = compiled(model, copies, labels)
    assert [loss, right] == [*plain(model, copies, labels)]
    compiled(model, copies, labels)
    assert len(calls) == 1
    assert loss.requires_grad


def test_the_vote_loss_counts_inputs_whose_smallest_lead_is_below_the_target() -> None:
    """By plain loops; and about 1 for an input that every copy gets wrong, 0 for one that all get right."""
    torch.manual_seed(0)
    scores, labels = 2 * torch.randn(5, 7, 4), torch.arange(7) % 4
    expected = 0.0
    for row, label in enumerate(labels.tolist()):
        leads = [
            sum(math.tanh(float(copy[row, label] - copy[row, rival])) for copy in scores) / 5
            for rival in range(4)
            if rival != label
        ]
        smallest = -math.log(sum(math.exp(-20 * lead) for lead in leads)) / 20
        expected += 1 / (1 + math.exp(-6 * (0.3 - smallest)))
    assert vote_loss(scores, labels, 0.3).item() == pytest.approx(expected, rel=1e-5)
    sure = 9.0 * torch.nn.functional.one_hot(labels, 4).expand(5, 7, 4)
    assert vote_loss(sure, labels, 0.3).item() < 7 * 0.03
    assert vote_loss(sure, (labels + 1) % 4, 0.3).item() > 7 * 0.99
    loss, right = objective(torch.device("cpu"), "fp32", 5, vote=VoteObjective(1, 0.1, 0.3, cross_entropy=0.5))(
        torch.nn.Identity(), scores.flatten(0, 1), labels
    )
    entropy = torch.nn.functional.cross_entropy(scores.flatten(0, 1), labels.repeat(5), reduction="sum") / 5
    assert loss.item() == pytest.approx(expected + 0.5 * entropy.item(), rel=1e-5)
    assert right.item() == pytest.approx((scores.argmax(2) == labels).sum().item() / 5)


VOTE = replace(
    RECIPES["vote-mnist"], epochs=3, batch=100, precision="fp32", vote=VoteObjective(epochs=2, rate=0.01, target=0.3)
)


def test_a_recipe_may_have_a_scheme_of_its_own(few: Dataset, tmp_path: Path) -> None:
    model = train(few, replace(VOTE, scheme="spread-9"), tmp_path)
    assert Smoothed.load(model).scheme == Spread(8, 8, 9)


def test_a_model_of_random_masks_is_certified_by_pairs(few: Dataset, tmp_path: Path) -> None:
    random = replace(RECIPES["vote-mnist-random"], epochs=2, batch=75, copies=2, precision="fp32", vote=VOTE.vote)
    for name, recipe in (("vote", random), ("plain", replace(random, vote=None))):
        assert procedure_for(Smoothed.load(train(few, recipe, tmp_path / name)), None) == Fixed(bound="pairwise")
    named = train(few, replace(random, vote=None), tmp_path / "named", own={"bound": "two-sided"})
    assert procedure_for(Smoothed.load(named), None) == Fixed(bound="two-sided")
    digits, values = replace(RECIPES["digits"], epochs=1, masks="sample"), RandomValues(64, "0.5", 17)
    other = train(few, digits, tmp_path / "values", scheme=values, encoding=ReplacedValues(17))
    assert procedure_for(Smoothed.load(other), None) == Fixed(bound="two-sided")
    fixed = Smoothed.load(train(few, replace(VOTE, scheme="spread-9"), tmp_path / "fixed"))
    assert "bound" not in fixed.metadata


def test_both_parts_of_a_run_have_a_cycle_of_their_own() -> None:
    recipe = replace(VOTE, epochs=10, warm_up=0.5, rates=((1, 0.4),), vote=VoteObjective(4, 0.1, 0.3))
    assert [recipe.rate(epoch) for epoch in (1, 4)] == [0, 0.4]
    assert [recipe.rate(epoch) for epoch in (7, 9)] == [0, 0.1]
    assert recipe.rate(10, 1.0) == 0
    short = recipe.shortened(5)
    assert short.vote is not None
    assert (short.epochs, short.vote.epochs) == (5, 2)
    for changes in ({"schedule": "steps"}, {"epochs": 3}, {"masks": "sample"}, {"optimizer": "adam"}):
        with pytest.raises(InputError):
            replace(recipe, **changes)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="0 < target < 1"):
        VoteObjective(1, 0.1, 1.0)


@pytest.mark.parametrize("model", ["per-mask", "digits-cnn"])
def test_a_vote_is_trained_and_resumed_to_the_same_weights(few: Dataset, tmp_path: Path, model: str) -> None:
    """By networks per mask and by one for all masks; stopped in both parts of the run, with AdamW's state."""
    recipe, scheme = replace(VOTE, model=model), Lattice(8, 8, 8)
    straight = train(few, recipe, tmp_path / "straight", scheme=scheme)
    for stop in (1, 4):
        run = _run(few, recipe, scheme=scheme)
        run.resume(tmp_path / "stopped" / "checkpoint.safetensors")
        while run.step < stop:
            step_each([run])
            if run.step % run.epoch_steps == 0:
                run.end_epoch()
        assert run.phase == (stop == 4)
        run.save_checkpoint(tmp_path / "stopped")
    assert same_weights(train(few, recipe, tmp_path / "stopped", scheme=scheme), straight)
    with pytest.raises(InputError, match="draws its masks at random"):
        _run(few, replace(recipe, model="digits-cnn"))


def test_the_loss_is_the_sum_of_cross_entropies() -> None:
    torch.manual_seed(0)
    model, copies, labels = torch.nn.Linear(5, 3), torch.rand(7, 5), torch.arange(7) % 3
    loss, right = objective(torch.device("cpu"), "fp32")(model, copies, labels)
    shares = model(copies).softmax(1)
    assert loss.item() == pytest.approx(-shares[torch.arange(7), labels].log().sum().item(), rel=1e-5)
    assert int(right) == int((shares.argmax(1) == labels).sum())


def test_consistency_is_the_mean_divergence_of_the_copies() -> None:
    """By torch's own divergence; zero for copies alike; and the copies of an input lie one block after the other."""
    torch.manual_seed(0)
    model, inputs, labels = torch.nn.Linear(5, 4), torch.rand(3, 5), torch.tensor([0, 3, 1])
    rows = torch.cat((inputs, inputs + 0.5, inputs * 3))
    alone = [objective(torch.device("cpu"), "fp32")(model, rows[i : i + 3], labels) for i in (0, 3, 6)]
    shares = model(rows).softmax(1).view(3, 3, 4)
    expected = sum(
        torch.nn.functional.kl_div(copy.log(), shares.mean(0), reduction="sum").item() / 3 for copy in shares
    )
    assert divergence(shares.log()).item() == pytest.approx(expected, rel=1e-5)
    loss, right = objective(torch.device("cpu"), "fp32", copies=3, consistency=2.5)(model, rows, labels)
    assert loss.item() == pytest.approx(sum(one[0].item() for one in alone) / 3 + 2.5 * expected, rel=1e-5)
    assert right.item() == pytest.approx(sum(int(one[1]) for one in alone) / 3)
    assert abs(divergence(shares[:1].log().repeat(3, 1, 1)).item()) < 1e-6


def test_copies_of_an_input_have_masks_of_their_own(few: Dataset, tmp_path: Path) -> None:
    recipe = replace(QUICK, copies=2, consistency=1.0, batch=32)
    run = _run(few, recipe)
    run.prepare()
    chosen = run._chosen(32)
    masks, copies = run._masks(chosen), run._copies(chosen)
    assert masks.shape == (64, 64)
    assert torch.equal(masks[:32], run.scheme.masks(0, chosen.tolist(), [TRAINING])[:, 0])
    assert torch.equal(masks[32:], run.scheme.masks(0, chosen.tolist(), [TRAINING + 1])[:, 0])
    shown = few.images.batch(chosen.tolist()) / np.float32(255)
    for c in range(2):
        part = masks[32 * c :][:32].view(32, 1, 8, 8)
        assert torch.equal(copies[32 * c :][:32, :1], torch.where(part, torch.from_numpy(shown), 0))
    run.device_step.fill_(run.epoch_steps)
    assert torch.equal(run._masks(chosen)[:32], run.scheme.masks(0, chosen.tolist(), [TRAINING + 2])[:, 0])
    train(few, recipe, tmp_path)
    assert all(0 <= line["accuracy"] <= 1 for line in _log(tmp_path))


def test_the_header_of_a_recipe_is_that_of_the_first_model_files() -> None:
    """What was added later is written only where it is not the default."""
    header = modelfile.read_header("mnist-k45")["facts"]["training"]["settings"]["recipe"]
    assert RECIPES["paper-mnist"].to_dict() == header
    modern = RECIPES["modern-cifar10"].to_dict()
    assert (modern["schedule"], modern["precision"]) == ("one-cycle", "bf16")


def test_bf16_training_learns_and_keeps_its_weights_in_fp32(few: Dataset, tmp_path: Path) -> None:
    recipe = replace(
        QUICK, epochs=6, precision="bf16", schedule="one-cycle", warm_up=0.2, nesterov=True, rates=((1, 0.1),)
    )
    tensors, _ = modelfile.read(train(few, recipe, tmp_path))
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}
    losses = [json.loads(line)["loss"] for line in (tmp_path / "training.jsonl").read_text().splitlines()]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schedule": "one-cycle", "warm_up": 1.0}, "one-cycle needs one rate and warm_up"),
        ({"copies": 0}, "copies must be at least 1"),
        ({"copies": 2, "masks": "minibatch"}, "copies = 2 needs masks per sample"),
        ({"consistency": 1.0}, "consistency 1.0 must be 0, or positive with at least 2 copies"),
        ({"precision": "fp16"}, "precision must be one of fp32, bf16"),
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"batch": 0}, "batch must be at least 1"),
        ({"masks": "none"}, "masks must be one of minibatch, sample"),
        ({"augment": "mixup"}, "augment must be one of"),
        ({"norm_rows": 1}, "norm_rows must be at least 2"),
        ({"repeat": 0}, "repeat must be at least 1"),
        ({"masks": "minibatch", "repeat_masks": True}, "repeat_masks needs repeat"),
        ({"masks": "sample", "repeat": 1, "repeat_masks": True}, "and one mask per minibatch"),
    ],
)
def test_recipes_refuse(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(QUICK, **changes)


def test_the_recipe_goes_with_the_data() -> None:
    assert [recipe_for(name).name for name in ("digits", "mnist", "cifar10", "imagenet", "some/folder")] == [
        "digits",
        "paper-mnist",
        "paper-cifar10",
        "paper-imagenet",
        "paper-imagenet",
    ]
    with pytest.raises(InputError, match="recipe must be one of"):
        recipe_for("digits", "grandmother's")


def test_training_learns(trained: Path, digits: Digits) -> None:
    log = [json.loads(line) for line in (trained / "training.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in log] == list(range(1, 13))
    assert log[-1]["loss"] < log[0]["loss"] / 2
    images, labels = digits
    assert (Smoothed.load(trained).predict(images, n=300).labels == labels.numpy()).mean() > 0.5
    assert not (trained / "checkpoint.safetensors").exists()
    facts = modelfile.read_header(trained)["facts"]
    assert facts["training"]["settings"]["seed"] == 0
    assert facts["shape"] == [1, 8, 8]


@pytest.mark.parametrize("masks", ["minibatch", "sample"])
def test_masks_are_one_per_minibatch_or_one_per_sample(few: Dataset, masks: str) -> None:
    run = _run(few, replace(QUICK, masks=masks))
    run.prepare()
    drawn = run._masks(torch.arange(30))
    again = run._masks(torch.arange(30).flip(0))
    assert len(drawn) == (1 if masks == "minibatch" else 30)
    assert (drawn.sum(dim=1) == 10).all()
    if masks == "sample":
        assert len(drawn.unique(dim=0)) == 30
        assert torch.equal(drawn, run.scheme.masks(0, range(30), [TRAINING])[:, 0])
        assert torch.equal(again.flip(0), drawn)
        run.device_step.fill_(run.epoch_steps)
        assert not torch.equal(run._masks(torch.arange(30)), drawn)
    else:
        steps = []
        for run.step in (0, 1, 63, 64, 200, 1):
            run.device_step.fill_(run.step)
            run.prepare()
            steps.append(run._masks(torch.arange(30))[0])
            assert torch.equal(steps[-1], run.scheme.masks(0, [0], [TRAINING + run.step])[0, 0])
        assert len({tuple(mask.tolist()) for mask in steps}) == 5


def test_every_epoch_takes_every_input_once_in_its_own_order(few: Dataset) -> None:
    run = _run(few, QUICK)
    orders = [run.batches.order(epoch) for epoch in (0, 1, 0)]
    assert all(sorted(order.tolist()) == list(range(150)) for order in orders)
    assert torch.equal(orders[0], orders[2])
    assert not torch.equal(orders[0], orders[1])


@pytest.mark.parametrize("masks_too", [False, True])
def test_a_run_may_see_its_first_epochs_again(few: Dataset, masks_too: bool) -> None:
    """As one in two halves, of which the second was started anew with the same seed."""
    changes = {"epochs": 4, "masks": "minibatch", "augment": "crop-flip", "repeat": 2, "repeat_masks": masks_too}
    run = _run(few, replace(QUICK, **changes))
    shown: list[list[torch.Tensor]] = [[], [], [], []]
    while run.step < run.steps:
        run.prepare()
        chosen = run._chosen(run.batch)
        seen = run.batches.augmented(chosen, run.shifts), run._masks(chosen)
        shown[run.epoch] += [chosen, seen[0], *([seen[1]] if masks_too else [])]
        step_each([run])
    for epoch, same in ((2, 0), (3, 1), (1, 0)):
        pairs = zip(shown[epoch], shown[same], strict=True)
        assert all(torch.equal(*pair) for pair in pairs) == (epoch != 1)
    masks = [run.masks[step] for step in (0, 2 * run.epoch_steps)]
    assert torch.equal(*masks) == masks_too


@pytest.mark.parametrize(("reflected", "beyond"), [(False, "constant"), (True, "reflect")])
def test_images_are_only_shifted_and_flipped(reflected: bool, beyond: str) -> None:
    images = torch.randint(1, 256, (64, 3, 8, 8), dtype=torch.uint8)
    chosen = torch.arange(64).flip(0)
    by = random_shifts(0, chosen, epoch=3, reach=2)
    assert set(by[:, 0].tolist()) == set(by[:, 1].tolist()) == {-2, -1, 0, 1, 2}
    assert set(by[:, 2].tolist()) == {0, 1}
    for image, index, (down, right, mirrored) in zip(
        shift_and_flip(images, chosen, by, reflected), chosen, by.tolist(), strict=True
    ):
        whole = (images[index].flip(2) if mirrored else images[index]).float()
        frame = torch.nn.functional.pad(whole, (2,) * 4, mode=beyond)
        assert torch.equal(image.float(), frame[:, 2 - down : 10 - down, 2 - right : 10 - right])


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_tiny_images_are_reflected_as_far_as_they_go(size: int) -> None:
    """A shift of four pixels leads further than an image of three is wide; every pixel is still one of the image's."""
    image = torch.arange(1, size * size + 1, dtype=torch.uint8).view(1, 1, size, size)
    for down, right in itertools.product(range(-4, 5), repeat=2):
        moved = shift_and_flip(image, torch.tensor([0]), torch.tensor([[down, right, 0]]), reflected=True)
        assert moved.shape == image.shape
        assert moved.min() >= 1


@pytest.mark.parametrize(("augment", "reach", "reflected"), [("crop-flip", 4, False), ("reflected-crop-flip", 2, True)])
def test_a_recipe_says_how_far_images_move_and_what_lies_beyond_them(
    few: Dataset, augment: str, reach: int, reflected: bool
) -> None:
    run, everyone = _run(few, replace(QUICK, augment=augment)), torch.arange(150)
    shifts = run.batches.shifts(0)
    assert shifts is not None
    assert shifts[:, :2].abs().amax(dim=0).tolist() == [reach, reach]
    wanted = shift_and_flip(torch.from_numpy(few.images.batch(range(150))), everyone, shifts, reflected)
    assert torch.equal(run.batches.augmented(everyone, shifts), wanted)


def test_the_papers_recipe_takes_the_steps_of_a_plain_loop() -> None:
    """As the paper describes them: crop and flip, one mask per minibatch, SGD with momentum, decay of all weights."""
    data = datasets.load("cifar10-sample")
    data = replace(data, images=ArrayImages(data.images.batch(range(40))), labels=data.labels[:40])
    recipe = replace(RECIPES["paper-cifar10"], batch=16, epochs=2, rates=((1, 0.01), (2, 0.001)))
    run = _run(data, recipe, scheme=Uniform(1024, 75))
    run.model.train()
    model, pixels, labels = copy.deepcopy(run.model), torch.from_numpy(data.images.batch(range(40))) / 255, data.labels
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=0.0005)
    for epoch, rate in enumerate((0.01, 0.001)):
        order, shifts = run.batches.order(epoch), run.batches.shifts(epoch)
        assert shifts is not None
        optimizer.param_groups[0]["lr"] = rate
        for chosen in torch.split(order, 16):
            mask = run.scheme.masks_at(0, torch.tensor([0]), torch.tensor([TRAINING + run.step])).view(1, 1, 32, 32)
            step_each([run])
            images = []
            for image, (down, right, mirrored) in zip(pixels[chosen], shifts[chosen].tolist(), strict=True):
                frame = torch.nn.functional.pad(image.flip(2) if mirrored else image, (4,) * 4)
                images.append(frame[:, 4 - down : 36 - down, 4 - right : 36 - right])
            whole = torch.stack(images)
            optimizer.zero_grad()
            scores = model(torch.cat((whole * mask, (1 - whole) * mask), dim=1))
            torch.nn.functional.cross_entropy(scores, torch.from_numpy(labels[chosen.numpy()])).backward()
            optimizer.step()
    assert run.step == 6
    for name, wanted in model.state_dict().items():
        assert torch.allclose(run.model.state_dict()[name], wanted, rtol=0, atol=1e-6), name


def test_shifts_are_a_pure_function_of_seed_image_and_epoch() -> None:
    by = random_shifts(0, torch.arange(20_000), epoch=1, reach=4)
    assert torch.equal(by[5:9], random_shifts(0, torch.arange(5, 9), epoch=1, reach=4))
    assert not torch.equal(by, random_shifts(0, torch.arange(20_000), epoch=2, reach=4))
    assert not torch.equal(by, random_shifts(1, torch.arange(20_000), epoch=1, reach=4))
    kinds, counts = by.unique(dim=0, return_counts=True)
    assert len(kinds) == 9 * 9 * 2
    expected = 20_000 / len(kinds)
    assert ((counts - expected) ** 2 / expected).sum() < 230  # chi-squared, 161 degrees of freedom: p = 0.0003


def test_the_default_encodings() -> None:
    data = datasets.load("digits", "train")
    assert default_encoding(data, QUICK).config() == NullChannels().config()
    normalised = default_encoding(data, replace(QUICK, normalise=True))
    assert normalised.config() == NullChannels(data.mean, data.std).config()
    assert default_encoding(data, QUICK, "mean-fill").config() == MeanFill(data.mean).config()
    in_bf16 = default_encoding(data, replace(QUICK, precision="bf16"), "mean-fill")
    assert (
        in_bf16.config()
        == MeanFill(data.mean, centred=True).config()
        == {**MeanFill(data.mean).config(), "centred": True}
    )


def test_progress_reports_the_truth(few: Dataset, tmp_path: Path) -> None:
    reported: list[tuple[int, int, dict[str, float]]] = []
    train(few, QUICK, tmp_path, on_progress=lambda done, steps, **metrics: reported.append((done, steps, metrics)))
    done, steps, metrics = reported[-1]
    assert done == steps == 2 * -(-150 // QUICK.batch)
    assert metrics["epoch"] == metrics["epochs"] == 2
    assert reported == sorted(reported, key=lambda line: line[0])
    assert 0 <= metrics["accuracy"] <= 1
    assert np.isfinite(metrics["loss"])


def test_the_seed_decides_the_weights(few: Dataset, tmp_path: Path) -> None:
    paths = [train(few, QUICK, tmp_path / name, seed=seed) for name, seed in (("a", 0), ("b", 0), ("c", 1))]
    assert same_weights(paths[0], paths[1])
    assert not same_weights(paths[0], paths[2])


def _with_batch_norm(channels: int, classes: int) -> torch.nn.Module:
    convolution = torch.nn.Conv2d(channels, 8, 3, padding=1)
    return torch.nn.Sequential(
        convolution, torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 64, classes)
    )


def test_split_batch_norm_normalises_each_part_by_itself() -> None:
    """Outputs and gradients are those of a batch norm for each part, running statistics those of the first."""
    torch.manual_seed(0)
    x, weights = torch.randn(2, 7, 3, 4, 5)
    alone = [torch.nn.Sequential(torch.nn.BatchNorm2d(3)) for _ in range(3)]
    split = split_batch_norm(copy.deepcopy(alone[0]), 3)
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    parts = [norm(part) for norm, part in zip(alone, inputs[0].split(3), strict=True)]
    for given, outputs in zip(inputs, (torch.cat(parts), split(inputs[1])), strict=True):
        assert torch.allclose(outputs, torch.cat(parts), atol=1e-6)
        (outputs * weights).sum().backward()
        assert torch.allclose(given.grad, inputs[0].grad, atol=1e-6)
    for together, *each in zip(split.parameters(), *(norm.parameters() for norm in alone), strict=True):
        assert torch.allclose(together.grad, sum(one.grad for one in each), atol=1e-5)
    for name, tensor in split.state_dict().items():
        assert torch.allclose(tensor, alone[0].state_dict()[name]), name
    assert torch.equal(split.eval()(x), alone[0].eval()(x))


def test_batch_norm_over_whole_batches_is_that_without_norm_rows(
    few: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODELS._things, "with-batch-norm", _with_batch_norm)
    recipe = replace(QUICK, model="with-batch-norm", epochs=1, batch=50)
    plain, whole, parts = (train(few, replace(recipe, norm_rows=rows), tmp_path / str(rows)) for rows in (None, 50, 10))
    assert same_weights(plain, whole)
    assert not same_weights(plain, parts)
    assert Smoothed.load(parts, model=_with_batch_norm(2, 10)).predict(torch.rand(2, 1, 8, 8), n=20).n == 20


def test_a_run_stopped_at_any_step_resumes_to_the_same_weights(
    few: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within an epoch, at its end, twice: with batch norm's statistics and the momentum carried over."""
    monkeypatch.setitem(MODELS._things, "with-batch-norm", _with_batch_norm)
    recipe = replace(QUICK, model="with-batch-norm", epochs=2, batch=50, augment="crop-flip")
    straight = train(few, recipe, tmp_path / "straight")

    for stops in ([1, 4], [3], [4, 4, 5]):
        out = tmp_path / f"stopped-{len(stops)}"
        for stop in stops:
            run = _run(few, recipe)
            run.resume(out / "checkpoint.safetensors")
            while run.step < stop:
                run.model.train()
                step_each([run])
                if run.step % run.epoch_steps == 0:
                    run.end_epoch()
            run.save_checkpoint(out)
        assert same_weights(train(few, recipe, out), straight)
    assert any("running_mean" in name for name in modelfile.read(straight)[0])
    assert _log(tmp_path / "straight") == _log(tmp_path / "stopped-3")


@pytest.mark.parametrize("masks", ["minibatch", "sample"])
def test_runs_trained_together_end_in_the_weights_of_runs_trained_alone(
    few: Dataset, tmp_path: Path, masks: str
) -> None:
    """One of them taken up after its first epoch, one of them already finished, one with another encoding."""
    recipe = replace(QUICK, masks=masks)
    settings = [{"scheme": Uniform(64, keep)} for keep in (5, 10, 20)] + [{"encoding": MeanFill(few.mean)}]
    alone = [
        train(few, recipe, tmp_path / f"alone-{i}", **{"scheme": Uniform(64, 10), **changes})
        for i, changes in enumerate(settings)
    ]
    half_way = _run(few, recipe, **settings[0])
    while half_way.step < half_way.epoch_steps + 1:
        step_each([half_way])
        if half_way.step == half_way.epoch_steps:
            half_way.end_epoch()
    half_way.save_checkpoint(tmp_path / "together-0")
    train(few, recipe, tmp_path / "together-1", scheme=Uniform(64, 10))
    runs = [_run(few, recipe, **changes) for changes in settings]
    reported: list[tuple[int, int]] = []
    together = train_many(
        [(run, tmp_path / f"together-{i}") for i, run in enumerate(runs)],
        on_progress=lambda done, steps, **metrics: reported.append((done, steps)),
    )
    for one, other in zip(alone, together, strict=True):
        assert same_weights(one, other)
        assert _log(one.parent) == _log(other.parent)
        assert not (other.parent / "checkpoint.safetensors").exists()
    assert reported == sorted(reported, key=lambda line: line[0])
    assert reported[-1][0] == reported[-1][1]


def test_a_finished_run_is_left_alone_and_another_refused(few: Dataset, tmp_path: Path) -> None:
    path = train(few, QUICK, tmp_path)
    before = path.stat().st_mtime_ns
    assert train(few, QUICK, tmp_path) == path
    assert path.stat().st_mtime_ns == before
    with pytest.raises(InputError, match=r"model.safetensors belongs to another run \(seed differs\)"):
        train(few, QUICK, tmp_path, seed=5)
    assert isinstance(few.images, ArrayImages)
    pixels = few.images.pixels.copy()
    pixels[7, 0, 3, 3] ^= 1
    with pytest.raises(InputError, match=r"belongs to another run \(data differs\)"):
        train(replace(few, images=ArrayImages(pixels)), QUICK, tmp_path)
    run = _run(few, QUICK)
    run.save_checkpoint(tmp_path / "half")
    with pytest.raises(InputError, match=r"checkpoint.safetensors belongs to another run \(recipe differs\)"):
        train(few, replace(QUICK, batch=32), tmp_path / "half", scheme=Uniform(64, 10))


def test_a_run_stopped_between_two_steps_is_checkpointed(few: Dataset, tmp_path: Path) -> None:
    def reported(done: int, steps: int, **metrics: float) -> None:
        if done == 3:  # the end of an epoch, which is always reported
            raise Stop

    with pytest.raises(Stop):
        train(few, QUICK, tmp_path / "a", on_progress=reported)
    assert modelfile.read_header(tmp_path / "a" / "checkpoint.safetensors")["step"] == 3
    assert same_weights(*(train(few, QUICK, tmp_path / name) for name in "ab"))


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_the_end_of_a_job_keep_what_was_trained(tmp_path: Path, sent: signal.Signals) -> None:
    file = tmp_path / "run" / "checkpoint.safetensors"
    settings = "--epochs", 3000, "--checkpoint-seconds", 1, "--device", "cpu"
    starting = command("train", "--data", "digits", *settings, "--out", tmp_path / "run")
    process = subprocess.Popen(starting, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(file.exists)
    process.send_signal(sent)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + sent
    step, steps = modelfile.read_header(file)["step"], 3000 * 21
    assert f"{step:,} of {steps:,} steps, loss" in errors  # the last that was done
    words = f"stopped; {step:,} of {steps:,} steps are in {file}; rerun the same command to resume"
    assert errors.splitlines()[-1] == words


@pytest.mark.parametrize(
    ("changes", "message"), [({"model": "mnist-cnn"}, r"does not take ablated copies of shape \(2, 8, 8\)")]
)
def test_a_model_that_does_not_fit_the_data_is_refused_before_anything_is_written(
    few: Dataset, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        train(few, replace(QUICK, **changes), tmp_path / "run")
    with pytest.raises(InputError, match="seed must be a whole number"):
        train(few, QUICK, tmp_path / "run", seed=1 << 64)
    assert not (tmp_path / "run").exists()


def test_foreign_files_in_the_folder_are_left_alone_and_named(few: Dataset, tmp_path: Path) -> None:
    (tmp_path / ".thesis.pdf.part").write_text("precious")
    (tmp_path / ".folder.part").mkdir()
    path = train(few, QUICK, tmp_path)
    assert (tmp_path / ".thesis.pdf.part").read_text() == "precious"
    path.rename(tmp_path / "checkpoint.safetensors")
    with pytest.raises(InputError, match=r"checkpoint.safetensors is not a checkpoint"):
        train(few, QUICK, tmp_path)
    modelfile.write(path, {}, {})
    with pytest.raises(InputError, match="belongs to another run"):
        train(few, QUICK, tmp_path)


def test_leftovers_of_a_killed_writer_are_swept(few: Dataset, tmp_path: Path) -> None:
    (tmp_path / ".model.safetensors.123.part").write_bytes(b"half")
    train(few, QUICK, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "model.safetensors", "training.jsonl"]


def test_two_writers_refuse_each_other(few: Dataset, tmp_path: Path) -> None:
    from sparsecert.files import sole_writer

    with sole_writer(tmp_path, ()), pytest.raises(InputError, match="is being written by another run"):
        train(few, QUICK, tmp_path)
    assert train(few, QUICK, tmp_path).exists()


def test_the_log_is_whole_before_the_model_is_there(
    few: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run killed between the two has no model, so that it is taken up again; its log would stay short otherwise."""
    save, seen = Smoothed.save, []

    def saved(self: Smoothed, path: str | Path, **options: Any) -> None:
        seen.extend(_log(tmp_path))
        save(self, path, **options)

    monkeypatch.setattr(Smoothed, "save", saved)
    train(few, QUICK, tmp_path)
    assert [line["epoch"] for line in seen] == [1, 2]


@pytest.mark.parametrize("seconds", [float("nan"), -1.0])
def test_a_time_between_checkpoints_that_is_none_is_refused(few: Dataset, tmp_path: Path, seconds: float) -> None:
    with pytest.raises(InputError, match=f"checkpoint_seconds must be a number of at least 0, got {seconds}"):
        train(few, QUICK, tmp_path / "run", checkpoint_seconds=seconds)
    assert not (tmp_path / "run").exists()


def test_divergence_is_said(few: Dataset, tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"training diverged in epoch 1: the loss is (nan|inf); lower the learning rate"
    ):
        train(few, replace(QUICK, rates=((1, 1e30),)), tmp_path)


def test_an_augmentation_that_does_not_fit_the_data_is_refused(few: Dataset, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs an image folder, digits is not one"):
        train(few, replace(QUICK, augment="resized-crop-flip"), tmp_path)


@pytest.mark.check
def test_a_folder_of_photographs_is_trained_on(tmp_path: Path) -> None:
    """The ImageNet recipe itself, on eight tiny photographs, one epoch."""
    write_photographs(tmp_path / "photos" / "train", 8, (40, 60))
    data = datasets.load(str(tmp_path / "photos"), "train", size=224)
    recipe = replace(RECIPES["paper-imagenet"].shortened(1), batch=8)
    header = modelfile.read_header(train(data, recipe, tmp_path / "run"))
    assert header["scheme"] == {"kind": "uniform", "units": 224 * 224, "keep": 1000}
    assert header["encoding"]["mean"] == [0.485, 0.456, 0.406]
    assert header["architecture"] == {"name": "resnet50", "channels": 6, "classes": 2}


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Ten photographs of two classes, shown as squares of 16 pixels."""
    root = tmp_path_factory.mktemp("photographs")
    write_photographs(root / "train", 10, (24, 30), "jpeg")
    return folder.load(root, "train", size=16)


def test_a_step_sees_the_random_crops_of_its_epoch(photographs: Dataset) -> None:
    recipe = replace(RECIPES["paper-imagenet"], model="resnet18-cifar", epochs=2, batch=4)
    run = _run(photographs, recipe, scheme=Uniform(256, 100), workers=1)
    assert isinstance(photographs.images, folder.FolderImages)
    with closing(run):
        for step in range(run.steps):
            run.prepare()
            run.device_step.fill_(step)
            chosen = run._chosen(run.batch)
            expected = photographs.images.load_views(chosen.tolist(), RandomCrop(0, run.epoch))
            assert run.prefetcher is not None
            assert (run.prefetcher.pixels[: len(chosen)].numpy() == expected).all()
            run.step += 1


def test_a_batch_beyond_the_data_takes_no_more_memory_than_the_data(photographs: Dataset) -> None:
    recipe = replace(RECIPES["paper-imagenet"], model="resnet18-cifar", epochs=1, batch=10**15)
    run = _run(photographs, recipe, scheme=Uniform(256, 100), workers=0)
    with closing(run):
        run.prepare()
        assert run.prefetcher is not None
        assert len(run.prefetcher.pixels) == run.batch == len(photographs)


def test_training_on_a_folder_is_the_same_with_any_workers_and_after_a_stop(
    photographs: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the midst of an epoch."""
    recipe = replace(RECIPES["paper-imagenet"], model="resnet18-cifar", epochs=2, batch=4, keep=100)

    def reported(done: int, steps: int, **metrics: float) -> None:
        if done == 4:
            raise Stop

    monkeypatch.setattr("sparsecert.training.loop.PROGRESS_SECONDS", 0.0)
    with pytest.raises(Stop):
        train(photographs, recipe, tmp_path / "stopped", on_progress=reported)
    paths = [train(photographs, recipe, tmp_path / name, workers=n) for name, n in (("stopped", 2), ("straight", 0))]
    assert modelfile.fingerprint(paths[0]) == modelfile.fingerprint(paths[1])


def test_a_run_killed_by_sigkill_ends_in_the_same_weights(tmp_path: Path) -> None:
    settings = ["--data", "digits", "--epochs", 6, "--checkpoint-seconds", 0, "--device", "cpu"]
    killed, straight = tmp_path / "killed", tmp_path / "straight"
    starting = command("train", *settings, "--out", killed)
    process = subprocess.Popen(starting, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until((killed / "checkpoint.safetensors").exists)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert (killed / "checkpoint.safetensors").exists()
    assert not (killed / "model.safetensors").exists()
    for out in (killed, straight):
        assert sparsecert("train", *settings, "--out", out).returncode == 0
    assert same_weights(killed, straight)
    assert _log(killed) == _log(straight)
    assert modelfile.fingerprint(killed) == modelfile.fingerprint(straight)
