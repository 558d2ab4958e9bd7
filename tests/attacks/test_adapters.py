"""Attacks of other libraries run on a smoothed classifier as they are, and what they find fools it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.foolbox_pointwise import by_foolbox, by_us
from sparsecert.adapters.libraries import import_foolbox
from sparsecert.adapters.scores import ABSTAIN_SCORE, Scores
from sparsecert.attacks import Network, SmoothedDefender, SurrogateDefender
from sparsecert.encodings import NullChannels
from sparsecert.errors import InputError
from sparsecert.schemes import Uniform
from sparsecert.smoothed import Smoothed
from tests.helpers import Digits

needs_foolbox = pytest.mark.skipif(
    find_spec("foolbox") is None, reason="Foolbox is not installed: pip install 'sparsecert[foolbox]'"
)
needs_art = pytest.mark.skipif(
    find_spec("art") is None,
    reason="the Adversarial Robustness Toolbox is not installed: pip install 'sparsecert[art]'",
)


@pytest.fixture(autouse=True)
def _the_libraries_generators() -> None:
    np.random.seed(0)  # noqa: NPY002, both draw from the global generators
    torch.manual_seed(0)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[bytes, set[int]]:
    """Filled with every image that a library queries, and the class with the largest score in each answer."""
    seen: dict[bytes, set[int]] = {}
    forward = Scores.forward

    def remembered(self: Scores, images: torch.Tensor) -> torch.Tensor:
        scores = forward(self, images)
        for image, answer in zip(images.detach(), scores.argmax(dim=1).tolist(), strict=True):
            seen.setdefault(image.numpy().tobytes(), set()).add(answer)
        return scores

    monkeypatch.setattr(Scores, "forward", remembered)
    return seen


def _right(smoothed: Smoothed, digits: Digits, count: int) -> Digits:
    """Digits that the classifier is sure and right about."""
    images, labels = digits
    shares = smoothed.predict(images, n=1_000, seed=9).counts / 1_000
    sure = torch.from_numpy(shares)[torch.arange(len(labels)), labels] > 0.6
    assert sure.sum() >= count
    return images[sure][:count], labels[sure][:count]


def _coin() -> Smoothed:
    """Of four pixels one is shown: class 1 where it is white, so that the shares are known by hand."""

    def model(copies: torch.Tensor) -> torch.Tensor:
        white = copies[:, 0].flatten(1).sum(dim=1)
        return torch.stack((0.5 - white, white - 0.5, torch.full_like(white, -9.0)), dim=1)

    return Smoothed(model, Uniform(units=4, keep=1), NullChannels())


def test_scores_are_shares_of_the_votes_and_an_abstention_is_the_largest() -> None:
    images = torch.tensor([[0.0, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1]]).view(3, 1, 2, 2)
    scores = Scores(_coin(), n=400, batch=2)(images)
    assert scores.shape == (3, 4)
    assert scores[0].tolist() == [1, 0, 0, 0]
    assert scores[2].tolist() == [0, 1, 0, 0]
    assert float(scores[1, 0] + scores[1, 1]) == pytest.approx(1)
    assert float(scores[1, 0]) == pytest.approx(0.5, abs=0.1)
    assert scores[1, 3] == ABSTAIN_SCORE
    assert scores.argmax(dim=1).tolist() == [0, 3, 1]
    without = Scores(_coin(), n=400, abstains=False)(images)
    assert without.shape == (3, 3)
    assert torch.equal(without[[0, 2]], scores[[0, 2], :3])


def test_an_abstention_outweighs_even_all_of_few_votes() -> None:
    """Three votes for one class do not decide at alpha = 0.05."""
    scores = Scores(_coin(), n=3)(torch.ones(1, 1, 2, 2))
    assert scores.tolist() == [[0, 1, 0, ABSTAIN_SCORE]]
    assert scores.argmax() == 3


def test_scores_agree_with_predictions_and_masks_are_fresh_unless_asked(trained: Path, digits: Digits) -> None:
    smoothed, images = Smoothed.load(trained), digits[0][:7]
    scores = Scores(smoothed, n=150, seed=4, batch=3)
    first, second = scores(images), scores(images)
    said = smoothed.predict(images, n=150, seed=4)
    assert first[:, :10].numpy() == pytest.approx(said.counts / 150)
    assert ((first.argmax(dim=1) == 10).numpy() == said.abstained).all()
    assert (first.argmax(dim=1).numpy() == said.labels)[~said.abstained].all()
    assert not torch.equal(first, second)
    again = Scores(smoothed, n=150, seed=4, fresh=False)
    assert torch.equal(again(images), again(images.flip(0)).flip(0))


def test_the_gradient_is_that_of_the_mean_probabilities(trained: Path, digits: Digits) -> None:
    """As `SmoothedDefender` gives it, whatever the batch; and the base classifier is left as it was."""
    smoothed, images = Smoothed.load(trained), digits[0]
    assert isinstance(smoothed.model, torch.nn.Module)
    smoothed.model.train()
    weight = torch.linspace(-1, 1, 10)
    expected_at = images[:5].clone().requires_grad_()
    mean = SmoothedDefender(smoothed, copies=16).scores(expected_at)
    (expected,) = torch.autograd.grad((mean * weight).sum(), expected_at)
    at = images[:5].clone().double().requires_grad_()
    scores = Scores(smoothed, n=100, copies=16, batch=2)(at)
    (scores * torch.cat((weight, torch.tensor([100.0])))).sum().backward()  # type: ignore[no-untyped-call]
    assert at.grad is not None
    assert at.grad.float().numpy() == pytest.approx(expected.numpy(), abs=1e-5)
    assert smoothed.model.training
    assert all(parameter.grad is None for parameter in smoothed.model.parameters())


@pytest.mark.parametrize("through", [lambda copies: copies.detach(), lambda copies: torch.from_numpy(copies.numpy())])
def test_a_model_without_gradients_says_so(through: Callable[[torch.Tensor], torch.Tensor]) -> None:
    coin = _coin().model
    scores = Scores(Smoothed(lambda copies: coin(through(copies)), Uniform(4, 1), NullChannels()), n=50)
    assert scores(torch.rand(2, 1, 2, 2)).shape == (2, 4)
    reached = scores(torch.rand(2, 1, 2, 2, requires_grad=True)).sum()
    with pytest.raises(InputError, match="the model, a function, has no gradients; use an attack that asks for scores"):
        reached.backward()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n": 0}, "n must be a whole number between 1 and"),
        ({"alpha": 1.5}, "alpha"),
        ({"batch": 0}, "batch must be a whole number between 1 and"),
        ({"copies": 0}, "copies must be a whole number between 1 and"),
    ],
)
def test_settings_are_checked_before_any_query(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Scores(_coin(), **settings)


@pytest.mark.parametrize(
    ("library", "call", "message"),
    [
        ("foolbox", lambda g: g.as_foolbox(), r"Foolbox is not installed; pip install 'sparsecert\[foolbox\]'"),
        ("art.estimators", lambda g: g.as_art(shape=(1, 2, 2)), r"Toolbox is not installed.*'sparsecert\[art\]'"),
    ],
)
def test_without_the_library_the_remedy_is_named(
    library: str, call: Callable[[Smoothed], Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(InputError, match=message):
        call(_coin())


def _foolbox_attacks() -> dict[str, tuple[Callable[[Any], Any], float | None, bool]]:
    """Name: how it is made of the library, its epsilon, and whether it bears random answers."""
    return {
        "salt and pepper": (lambda fb: fb.attacks.SaltAndPepperNoiseAttack(steps=60), None, True),
        "blended noise": (lambda fb: fb.attacks.LinearSearchBlendedUniformNoiseAttack(steps=30), None, True),
        "projected gradients": (lambda fb: fb.attacks.LinfPGD(steps=4), 0.6, True),
        "DeepFool": (lambda fb: fb.attacks.L2DeepFoolAttack(steps=8), None, True),
        "pointwise": (
            lambda fb: fb.attacks.PointwiseAttack(
                fb.attacks.SaltAndPepperNoiseAttack(steps=60), l2_binary_search=False
            ),
            None,
            False,
        ),
    }


@needs_foolbox
@pytest.mark.parametrize("name", list(_foolbox_attacks()))
def test_foolbox_attacks(name: str, trained: Path, digits: Digits, asked: dict[bytes, set[int]]) -> None:
    made, epsilon, fresh = _foolbox_attacks()[name]
    smoothed = Smoothed.load(trained)
    images, labels = _right(smoothed, digits, 4)
    model = smoothed.as_foolbox(n=100, copies=16, fresh=fresh)
    assert model.bounds == (0, 1)
    assert model(images).shape == (4, 11)
    _, found, succeeded = made(import_foolbox())(model, images, labels, epsilons=epsilon)
    assert found.shape == images.shape
    assert succeeded.sum() >= 2
    for image, label in zip(found[succeeded], labels[succeeded].tolist(), strict=True):
        assert 0 <= float(image.min()) <= float(image.max()) <= 1
        assert asked[image.numpy().tobytes()] - {label}  # at a query of its own
    _judge_again(smoothed, found[succeeded], images[succeeded], labels[succeeded], fresh)


def _judge_again(
    smoothed: Smoothed, found: torch.Tensor, images: torch.Tensor, labels: torch.Tensor, fresh: bool
) -> None:
    """By the same masks where they were common to all queries; and by others, which vote less for the true label."""
    if not fresh:
        assert (SurrogateDefender(smoothed, n=100).answers(found).labels != labels).all()
    other = SmoothedDefender(smoothed, n=400, seed=7)
    after, before = (other.answers(some).scores.gather(1, labels[:, None]).mean() for some in (found, images))
    assert after < before - 0.1


def _art_attacks() -> dict[str, tuple[Callable[[Any, Any], Any], bool]]:
    """Name: how it is made of the library for a classifier, and whether it bears random answers."""
    quiet = {"verbose": False}
    return {
        "square": (lambda art, to: art.SquareAttack(to, eps=0.6, max_iter=30, nb_restarts=1, **quiet), True),
        "fast gradient": (lambda art, to: art.FastGradientMethod(to, eps=0.6), True),
        "HopSkipJump": (
            lambda art, to: art.HopSkipJump(to, max_iter=2, max_eval=40, init_eval=10, init_size=40, **quiet),
            False,
        ),
        "few pixels": (lambda art, to: art.PixelAttack(to, th=20, es=1, max_iter=1, **quiet), False),
    }


@pytest.mark.check  # importing the toolbox alone takes seconds
@needs_art
@pytest.mark.parametrize("name", list(_art_attacks()))
def test_art_attacks(name: str, trained: Path, digits: Digits, asked: dict[bytes, set[int]]) -> None:
    made, fresh = _art_attacks()[name]
    smoothed = Smoothed.load(trained)
    images, labels = _right(smoothed, digits, 2 if name == "few pixels" else 4)
    classifier = smoothed.as_art(n=100, copies=16, fresh=fresh)
    assert classifier.nb_classes == 11
    assert classifier.input_shape == (1, 8, 8)
    assert classifier.clip_values.tolist() == [0, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        attack = made(import_module("art.attacks.evasion"), classifier)
        found = torch.from_numpy(attack.generate(images.numpy(), labels.numpy()))
    assert found.shape == images.shape
    assert found.min() >= 0
    assert found.max() <= 1
    answers = torch.from_numpy(classifier.predict(found.numpy())).argmax(dim=1)
    fooled = (answers != labels) & (found != images).flatten(1).any(dim=1)
    assert fooled.sum() >= 1
    for image, label in zip(found[fooled], labels[fooled].tolist(), strict=True):
        assert asked[image.numpy().tobytes()] - {label}
    _judge_again(smoothed, found[fooled], images[fooled], labels[fooled], fresh)


@pytest.mark.check  # importing the toolbox alone takes seconds
@needs_art
def test_art_gets_the_shape_where_no_file_has_it() -> None:
    with pytest.raises(InputError, match="shape must be that of one image"):
        _coin().as_art()
    classifier = _coin().as_art(n=50, shape=(1, 2, 2), abstains=False)
    assert classifier.nb_classes == 3
    assert classifier.predict(np.ones((2, 1, 2, 2), dtype=np.float32)).tolist() == [[0, 1, 0]] * 2


@needs_foolbox
def test_our_pointwise_attack_finds_no_more_pixels_than_foolbox_s(trained: Path, digits: Digits) -> None:
    """On the base classifier alone, shown whole digits of one channel, where Foolbox's count is that of pixels."""
    base = Smoothed.load(trained).model
    whole = torch.ones(1, 64, dtype=torch.bool)

    class Plain(torch.nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return base(NullChannels()(images, whole.expand(len(images), -1)))

    images, labels = digits[0][:10], digits[1][:10]
    defender = Network(Plain().eval())
    ours = by_us(defender, images, labels, 4, 20, 0)
    theirs = by_foolbox(defender.model, images, labels, 4, 0, defender.device, together=10)
    assert (ours.distances > 0).sum() >= 7
    assert np.isfinite(ours.distances).all()
    assert np.median(ours.distances) <= np.median(theirs.distances)
