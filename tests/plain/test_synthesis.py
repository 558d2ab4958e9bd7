"""Analysis by synthesis: one class of the grouped network as a network of its own, inference against plain loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import conv2d, conv_transpose2d

from sparsecert import devices, plain
from sparsecert.attacks import Answers, Attack, Judge, Saliency
from sparsecert.errors import InputError
from sparsecert.plain import AnalysisBySynthesis, Autoencoders, SynthesisDefender, lanes
from sparsecert.plain.decoders import Decoders
from sparsecert.plain.descents import Descents, project, value
from sparsecert.plain.lanes import Lanes
from sparsecert.plain.row_layers import RowLayer
from sparsecert.plain.synthesis import BINARIZED_FACTORS

CPU = torch.device("cpu")


def _trained(**settings: int) -> Autoencoders:
    """Autoencoders with batch-norm statistics of their own, as training leaves them."""
    model = Autoencoders(**{"candidates": 30, "steps": 6, **settings})
    torch.manual_seed(1)
    for part in model.modules():
        if isinstance(part, nn.BatchNorm2d):
            assert part.running_mean is not None
            assert part.running_var is not None
            part.running_mean.normal_(0, 0.1)
            part.running_var.uniform_(0.05, 0.2)
            part.weight.data.uniform_(0.5, 2)
            part.bias.data.normal_(0, 0.3)
    return model.eval().requires_grad_(False)


@pytest.fixture(scope="module")
def autoencoders() -> Autoencoders:
    return _trained()


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    """Images near what the decoders make, so that all classes compete."""
    torch.manual_seed(2)
    shown = _trained().decode(torch.randn(5, 10, 8))[:, [3, 1, 4, 1, 5], :, :].diagonal().permute(2, 0, 1)[:, None]
    return (shown + 0.1 * torch.randn(shown.shape)).clamp(0, 1)


def _own(norm: nn.Module, number: int, values: torch.Tensor) -> torch.Tensor:
    """Batch norm in eval mode by its formula, with the statistics of one class, then ELU."""
    assert isinstance(norm, nn.BatchNorm2d)
    each = (
        part.view(10, -1)[number][:, None, None]
        for part in (norm.running_mean, norm.running_var, norm.weight, norm.bias)
    )  # type: ignore[union-attr]
    mean, variance, weight, bias = each
    return nn.functional.elu((values - mean) / (variance + norm.eps).sqrt() * weight + bias)


def test_the_networks_are_as_described(autoencoders: Autoencoders) -> None:
    kernels = [
        (*part.weight.shape[1:3], *part.stride)
        for part in autoencoders.modules()
        if isinstance(part, nn.Conv2d | nn.ConvTranspose2d)
    ]
    assert kernels == [
        (1, 5, 1, 1), (32, 4, 2, 2), (32, 3, 2, 2), (64, 5, 1, 1), (64, 5, 1, 1),
        (32, 4, 1, 1), (16, 5, 2, 2), (16, 5, 2, 2), (1, 4, 1, 1),
    ]  # fmt: skip
    seen: list[tuple[int, ...]] = []
    hooks = [
        part.register_forward_hook(lambda _module, _given, values: seen.append(tuple(values.shape[1:])))
        for part in autoencoders.modules()
        if isinstance(part, nn.Conv2d | nn.ConvTranspose2d)
    ]
    found, loss = autoencoders(torch.zeros(2, 10, 28, 28), torch.zeros(2, 10, 8))
    for hook in hooks:
        hook.remove()
    assert [side for *_, side in seen] == [24, 11, 5, 1, 1, 4, 11, 25, 28]
    assert (found.shape, loss.shape) == ((2, 10, 28, 28), (2, 10))


@pytest.mark.parametrize("number", [0, 7])
def test_an_autoencoder_alone_is_the_one_in_its_place(autoencoders: Autoencoders, number: int) -> None:
    """Its convolutions written out with its share of the weights, nothing grouped; and the loss by its formula."""
    torch.manual_seed(3)
    images, noise = torch.rand(4, 10, 28, 28), torch.randn(4, 10, 8)

    def weight(layer: nn.Module) -> torch.Tensor:
        assert isinstance(layer, nn.Conv2d | nn.ConvTranspose2d)
        return layer.weight.view(10, -1, *layer.weight.shape[1:])[number]

    values = images[:, number, None]
    for place, stride in ((0, 1), (3, 2), (6, 2)):
        values = conv2d(values, weight(autoencoders.encoder[place]), stride=stride)
        values = _own(autoencoders.encoder[place + 1], number, values)
    mean, log_variance = (
        conv2d(values, weight(head), head.bias.view(10, -1)[number])[:, :, 0, 0]  # type: ignore[union-attr]
        for head in (autoencoders.mean, autoencoders.log_variance)
    )
    latents = mean + (log_variance.exp()).sqrt() * noise[:, number]
    values = latents[:, :, None, None]
    for place, stride in ((0, 1), (3, 2), (6, 2)):
        values = conv_transpose2d(values, weight(autoencoders.decoder[place]), stride=stride)
        values = _own(autoencoders.decoder[place + 1], number, values)
    last = autoencoders.decoder[9]
    assert isinstance(last, nn.ConvTranspose2d)
    assert last.bias is not None
    shown = torch.sigmoid(conv_transpose2d(values, weight(last)) + last.bias[number])[:, 0]
    normal = torch.distributions.Normal(mean, log_variance.exp().sqrt())
    prior = torch.distributions.Normal(torch.zeros_like(mean), torch.ones_like(mean))
    divergence = torch.distributions.kl_divergence(normal, prior).sum(dim=1)
    found, loss = autoencoders(images, noise)
    torch.testing.assert_close(found[:, number], shown)
    torch.testing.assert_close(loss[:, number], (shown - images[:, number]).square().sum(dim=(1, 2)) + divergence)
    chosen = torch.tensor([number, 2, number])
    lone = Decoders(autoencoders, CPU)(latents[:, None].expand(-1, 3, -1), chosen)
    for lane in (0, 2):
        torch.testing.assert_close(lone[:, lane].view(4, 28, 28), shown)


def test_the_candidates_are_the_likeliest_draws_and_the_seeds_own() -> None:
    kept = Autoencoders(candidates=900, seed=4).candidates
    assert kept.shape == (900, 8)
    norms = kept.norm(dim=1)
    assert torch.equal(norms, norms.sort().values)
    assert 3 < norms.max() < 4.5  # the 90% quantile of a chi distribution with 8 degrees of freedom is 3.66
    assert torch.equal(Autoencoders(candidates=900, seed=4).candidates, kept)
    assert not torch.equal(Autoencoders(candidates=900, seed=5).candidates, kept)


def test_the_search_finds_the_best_of_all_candidates(autoencoders: Autoencoders, images: torch.Tensor) -> None:
    """Against a loop over images, classes and candidates."""
    least, latents = AnalysisBySynthesis(autoencoders).search(images.flatten(1))
    shown = autoencoders.decode(autoencoders.candidates[:, None].expand(-1, 10, -1))
    for row, image in enumerate(images):
        for number in range(10):
            worths = [
                float(((image[0] - other) ** 2).sum() + (latent**2).sum() / 2) / 784
                for other, latent in zip(shown[:, number], autoencoders.candidates, strict=True)
            ]
            assert least[row, number] == pytest.approx(min(worths), rel=1e-4)
            assert torch.equal(latents[row, number], autoencoders.candidates[int(np.argmin(worths))])


def test_the_steps_are_those_of_adam_and_the_least_counts(autoencoders: Autoencoders, images: torch.Tensor) -> None:
    synthesis = AnalysisBySynthesis(autoencoders)
    rows = images.flatten(1)
    least, starts = synthesis.search(rows)
    for image, number in ((0, 3), (2, 8)):
        latent = starts[image, number].clone().requires_grad_()
        optimizer = torch.optim.Adam([latent], lr=0.05)
        seen = []
        for step in range(autoencoders.steps + 1):
            shown = autoencoders.decode(latent.expand(1, 10, 8))[0, number].flatten()
            now = ((rows[image] - shown).square().sum() + latent.square().sum() / 2) / 784
            seen.append(now.item())
            if step < autoencoders.steps:
                optimizer.zero_grad()
                now.backward()
                optimizer.step()
                latent.data *= min(1.0, 5 / float(latent.detach().norm()))
        assert -synthesis(images)[image, number] == pytest.approx(min(seen), rel=1e-4)
        assert min(seen) < seen[0]
    assert (-synthesis(images) <= least + 1e-6).all()


def test_what_is_reported_is_what_its_latents_are_worth(images: torch.Tensor) -> None:
    """Steps so large that they overshoot: what counts never gets worse, and stopping halfway changes nothing."""
    model = _trained(steps=12)
    model.candidates.mul_(3)  # far from the optimum, and beyond the largest norm
    synthesis, rows = AnalysisBySynthesis(model), images.flatten(1)
    every, classes = torch.arange(len(rows)).repeat_interleave(10), torch.arange(10).repeat(len(rows))
    runs = []
    for stops in ([0, 12], [0, 5, 12]):
        descents = Descents(synthesis.descend, rows, *synthesis.search(rows))
        before = descents.least.clone()
        for first, last in pairwise(stops):
            descents.advance(every, classes, first, last)
            assert (descents.least <= before).all()
            before = descents.least.clone()
        shown = synthesis.decoders(descents.best, torch.arange(10))
        torch.testing.assert_close(value(rows[:, None], shown, descents.best), descents.least)
        assert descents._latents.norm(dim=2).max() <= 5.0001
        runs.append(descents)
    torch.testing.assert_close(runs[0].least, runs[1].least)
    torch.testing.assert_close(runs[0]._latents, runs[1]._latents)
    torch.testing.assert_close(-synthesis(images), runs[0].least)


def test_latents_are_projected_to_norm_5() -> None:
    latents = torch.tensor([[3.0, 4.0], [6.0, 8.0], [0.0, 0.0], [0.3, -0.4]])
    assert torch.equal(project(latents), torch.tensor([[3.0, 4.0], [3.0, 4.0], [0.0, 0.0], [0.3, -0.4]]))


@pytest.mark.parametrize(
    ("kernel", "stride", "channels", "filters"), [(4, 1, 8, 3), (5, 2, 2, 6), (4, 1, 6, 1), (3, 3, 2, 2), (2, 3, 1, 2)]
)
def test_a_layer_by_rows_is_the_transposed_convolution(kernel: int, stride: int, channels: int, filters: int) -> None:
    """In every lane, with gradients, by either way; a kernel below the stride leaves rows that nothing reaches."""
    torch.manual_seed(0)
    weight, bias = torch.randn(3, channels, filters, kernel, kernel).double(), torch.randn(3, filters).double()
    images = torch.randn(4, 2, channels, 5, 5, dtype=torch.float64, requires_grad=True)  # images, lanes
    classes = torch.tensor([2, 0])
    layer = RowLayer.of(weight, bias, stride, width=5).lanes(classes)
    found = layer(images.permute(1, 0, 3, 2, 4).flatten(3))  # lanes, images, rows, channels x width
    expected = torch.stack(
        [conv_transpose2d(images[:, lane], weight[own], bias[own], stride) for lane, own in enumerate(classes)]
    )
    torch.testing.assert_close(found, expected.permute(0, 1, 3, 2, 4).flatten(3))
    assert layer.width == expected.shape[-1]
    gradients = [torch.autograd.grad(values.square().sum(), images)[0] for values in (found, expected)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("counts", [[1], [5, 0, 2], [300, 0, 7, 90], [0, 0, 1000], []])
@pytest.mark.parametrize("most", [8, 128])
@pytest.mark.parametrize("on_gpu", [False, True])
def test_every_item_has_one_place_in_a_lane_of_its_network(
    counts: list[int], most: int, on_gpu: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "MOST_ROWS" if on_gpu else "CACHED_ROWS", most)
    networks = torch.cat([torch.tensor([], dtype=torch.int64), *(torch.full((n,), i) for i, n in enumerate(counts))])
    networks = networks[torch.randperm(len(networks), generator=torch.Generator().manual_seed(0))]
    seen = []
    for batch in Lanes.of(networks, on_gpu):
        rows, width = batch.items.shape
        assert batch.real.shape == (rows, width)
        assert rows <= most
        assert width == lanes.LANES if on_gpu else width <= 2 * len(counts)
        assert not on_gpu or rows in (*range(1, 9), 10, 12, 14, 16, 20, 24)
        own = networks[batch.items]
        assert torch.equal(own[batch.real], batch.networks.expand(rows, width)[batch.real])
        seen += batch.items[batch.real].tolist()
    assert sorted(seen) == list(range(len(networks)))


def test_a_batch_is_answered_as_its_images_one_by_one(
    autoencoders: Autoencoders, images: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And so by the products of matrices and the graphs that a GPU gets."""
    synthesis = AnalysisBySynthesis(autoencoders)
    expected = synthesis(images)
    torch.testing.assert_close(torch.cat([synthesis(image[None]) for image in images[:2]]), expected[:2])
    monkeypatch.setattr("sparsecert.plain.decoders.is_gpu", lambda _device: True)
    on_gpu, replayed = AnalysisBySynthesis(autoencoders), []

    def capture(work: Callable[[], None], what: str, pool: object) -> object:
        assert (pool is None) == (not replayed)
        return SimpleNamespace(replay=lambda: (work(), replayed.append(what)))

    monkeypatch.setattr("sparsecert.plain.descents.capture", capture)
    for _ in range(2):
        torch.testing.assert_close(on_gpu(images), expected)
    assert len(replayed) == 2 * autoencoders.steps
    torch.testing.assert_close(on_gpu(images.repeat(12, 1, 1, 1)), expected.repeat(12, 1))
    assert len(on_gpu.descend.graphs) == 2
    monkeypatch.setattr("sparsecert.plain.descents.capture", lambda *_: None)
    torch.testing.assert_close(AnalysisBySynthesis(autoencoders)(images), expected)
    assert synthesis(images[:0]).shape == (0, 10)
    with pytest.raises(InputError, match=r"images must be of shape \(1, 28, 28\), got \(1, 8, 8\)"):
        synthesis(torch.zeros(1, 1, 8, 8))


def test_only_a_query_about_a_label_computes_in_tf32(
    autoencoders: Autoencoders, images: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU that has it: every graph is captured in one precision, and replayed in that alone."""
    products, kept, replayed = devices.tf32_products, [], []

    def capture(work: Callable[[], None], what: str, pool: object) -> object:
        precision = torch.get_float32_matmul_precision()
        kept.append(precision)
        return SimpleNamespace(replay=lambda: (work(), replayed.append(precision)))

    monkeypatch.setattr("sparsecert.plain.decoders.is_gpu", lambda _device: True)
    monkeypatch.setattr("sparsecert.plain.synthesis.is_gpu", lambda _device: True)
    monkeypatch.setattr("sparsecert.plain.descents.capture", capture)
    for module in ("descents", "synthesis"):
        monkeypatch.setattr(
            f"sparsecert.plain.{module}.tf32_products", lambda _device, allowed: products(torch.device("cuda"), allowed)
        )
    decode, search = Decoders.__call__, AnalysisBySynthesis.search

    def decoding(self: Decoders, latents: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        prepared.add(torch.get_float32_matmul_precision())
        return decode(self, latents, classes)

    def searching(self: AnalysisBySynthesis, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        prepared.add(torch.get_float32_matmul_precision())
        return search(self, rows)

    monkeypatch.setattr(Decoders, "__call__", decoding)
    monkeypatch.setattr(AnalysisBySynthesis, "search", searching)
    labels = torch.tensor([3, 1, 4, 1, 5])
    for default in ("highest", "high"):  # whatever else the program asks for
        torch.set_float32_matmul_precision(default)
        try:
            kept.clear()
            prepared = set[str]()
            defender = SynthesisDefender(AnalysisBySynthesis(autoencoders))
            assert prepared == {"highest"}
            for against, precision in ((None, "highest"), (labels, "high")):
                replayed.clear()
                defender.answers(images, against=against)
                assert set(replayed) == {precision}
                assert torch.get_float32_matmul_precision() == default
            assert prepared == {"highest"}
        finally:
            torch.set_float32_matmul_precision("highest")
        assert sorted(kept) == ["high", "highest"]


def test_binarized_inference_thresholds_and_weighs(images: torch.Tensor) -> None:
    """The same networks, on the thresholded image, each class by its factor."""
    synthesis, binarized = (AnalysisBySynthesis(_trained(binarized=flag)) for flag in (False, True))
    expected = synthesis((images > 0.5).float()) * torch.tensor(BINARIZED_FACTORS)
    torch.testing.assert_close(binarized(images), expected)
    assert BINARIZED_FACTORS == (1, 0.96, 1.001, 1.06, 0.98, 0.96, 1.03, 1, 1, 1)


def test_gradients_are_those_of_l_at_the_latents_found(autoencoders: Autoencoders, images: torch.Tensor) -> None:
    synthesis = AnalysisBySynthesis(autoencoders)
    moving = images.clone().requires_grad_()
    scores = SynthesisDefender(synthesis).scores(moving)
    torch.testing.assert_close(scores.detach(), synthesis(images))
    (gradient,) = torch.autograd.grad(scores[:, 4].sum(), moving)
    rows = images.flatten(1)
    descents = Descents(synthesis.descend, rows, *synthesis.search(rows))
    descents.advance(torch.arange(5), torch.full((5,), 4), 0, autoencoders.steps)
    shown = synthesis.decoders(descents.best, torch.arange(10))[:, 4]
    torch.testing.assert_close(gradient.flatten(1), -2 * (rows - shown) / 784)


@pytest.mark.parametrize("at_once", [False, True])
def test_a_query_about_a_label_compares_it_with_its_rivals(
    autoencoders: Autoencoders, images: torch.Tensor, at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against every label: another class is answered only if the whole inference answers another; on a GPU, all at
    once. Whoever takes steps takes all of them; elsewhere a label that leads without any need not.
    """
    monkeypatch.setattr("sparsecert.plain.synthesis.is_gpu", lambda _device: at_once)
    synthesis = AnalysisBySynthesis(autoencoders)
    whole, searched = synthesis(images), -synthesis.search(images.flatten(1))[0]
    agreed = spared = 0
    for label in range(10):
        against = torch.full((len(images),), label)
        scores = synthesis(images, against)
        assert (scores >= searched - 1e-6).all()
        assert (scores <= whole + 1e-6).all()
        assert ((scores - searched).abs() > 1e-6).sum(dim=1).max() <= 4  # the label and three rivals take steps
        beaten = scores.argmax(dim=1) != label
        moved = (scores - searched).abs() > 1e-6
        torch.testing.assert_close(scores[moved], whole[moved])
        torch.testing.assert_close(scores[beaten, label], whole[beaten, label])
        assert at_once or (moved[~beaten].sum(dim=1) >= 3).all()  # all rivals, and the label if it fell behind
        assert not (beaten & (whole.argmax(dim=1) == label)).any()
        agreed += int((beaten == (whole.argmax(dim=1) != label)).sum())
        spared += int((~moved[~beaten, label]).sum())
    assert agreed >= 48  # of 50
    assert (spared == 0) == at_once


def test_the_rival_that_won_is_compared_first(
    autoencoders: Autoencoders, images: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one rival alone: whichever is named takes steps, and perhaps the label; by default the nearest."""
    monkeypatch.setattr("sparsecert.plain.synthesis.RIVALS", 1)
    synthesis, against = AnalysisBySynthesis(autoencoders), torch.tensor([0, 1, 2, 3, 4])
    searched = -synthesis.search(images.flatten(1))[0]
    nearest = searched.scatter(1, against[:, None], -torch.inf).argmax(dim=1)
    for first, expected in ((None, nearest), (against, nearest), ((against + 3) % 10, (against + 3) % 10)):
        moved = (synthesis(images, against, first) - searched) > 1e-6
        for row in range(5):
            assert set(moved[row].nonzero()[:, 0].tolist()) <= {int(against[row]), int(expected[row])}
            assert moved[row, expected[row]]


def test_a_search_remembers_its_last_winner_until_a_whole_query() -> None:
    """By a stand-in for the model, which answers the class that an image is filled with."""
    asked: list[list[int] | None] = []

    def model(images: torch.Tensor, against: torch.Tensor, first: torch.Tensor | None = None) -> torch.Tensor:
        asked.append(None if first is None else first.tolist())
        return (torch.arange(10) == images.flatten(1)[:, :1]).float()

    defender = SynthesisDefender(partial(model, against=torch.zeros(0)))  # type: ignore[arg-type]
    labels, slots = torch.tensor([1, 1, 1]), torch.tensor([7, 2, 4])

    def ask(*answers: int, slots: torch.Tensor | None = slots) -> list[int] | None:
        defender.answers(torch.tensor(answers)[:, None, None, None].float(), slots, labels)
        return asked[-1]

    assert ask(5, 1, 6) == [1, 1, 1]  # none has won: the label stands for none
    assert ask(1, 8, 6) == [5, 1, 6]
    assert ask(1, 1, 1, slots=None) == [1, 1, 1]
    assert ask(1, 1, 1, slots=slots.flip(0)) == [6, 8, 5]
    defender.answers(torch.zeros(2, 1, 1, 1))
    assert ask(1, 1, 1) == [1, 1, 1]


@dataclass(frozen=True)
class FewerAndFewer(Attack):
    """Random pixels black, half as many from one attempt to the next."""

    def run(self, judge: Judge, which: torch.Tensor, generator: torch.Generator) -> None:
        for count in (400, 200, 100, 50, 25, 12):
            attempts = judge.images[which].clone()
            for attempt in attempts:
                attempt.view(-1)[torch.randperm(784, generator=generator)[:count]] = 0.0
            judge.fooled(attempts, which)


class Gullible(SynthesisDefender):
    """Answers no query about a label by the label."""

    def answers(
        self, images: torch.Tensor, slots: torch.Tensor | None = None, against: torch.Tensor | None = None
    ) -> Answers:
        answers = super().answers(images, slots, against)
        return answers if against is None else replace(answers, labels=(against + 1) % 10)


@pytest.mark.parametrize("kind", [SynthesisDefender, Gullible])
def test_what_an_attack_finds_fools_the_whole_inference(
    autoencoders: Autoencoders, images: torch.Tensor, kind: type[SynthesisDefender]
) -> None:
    """Whatever queries about the label propose."""
    defender = kind(AnalysisBySynthesis(autoencoders))
    labels = defender.answers(images).labels
    assert torch.equal(labels, defender.model(images).argmax(dim=1))
    found = FewerAndFewer()(defender, images, labels)
    assert found.succeeded.any()
    answers = defender.answers(found.adversarial).labels
    assert torch.equal(answers != labels, found.succeeded)
    assert torch.equal(answers, found.answers)


def test_a_file_gives_back_the_autoencoders_that_were_saved(images: torch.Tensor, tmp_path: Path) -> None:
    for binarized in (False, True):
        model = _trained(binarized=binarized)
        architecture = {"network": "autoencoders", "channels": 1, "classes": 10, "binarized": binarized}
        path = tmp_path / f"{binarized}.safetensors"
        plain.save(path, model, {**architecture, "candidates": 30, "steps": 6}, {"data": "mnist"})
        loaded, facts = plain.load(path)
        assert isinstance(loaded, Autoencoders)
        assert (facts, loaded.binarized, loaded.steps) == ({"data": "mnist"}, binarized, 6)
        assert torch.equal(AnalysisBySynthesis(loaded)(images), AnalysisBySynthesis(model)(images))
    defender = SynthesisDefender(AnalysisBySynthesis(loaded))
    with pytest.raises(InputError, match="a binarized network has zero gradients; use a black-box attack"):
        Saliency()(defender, images, defender.answers(images).labels)
    plain.save(path, model, {**architecture, "candidates": 31, "steps": 6}, {})
    with pytest.raises(InputError, match="does not fit its network"):
        plain.load(path)
