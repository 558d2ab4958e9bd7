"""Projected gradient ascent: within its ball and bounds, and at the optimum where that is known."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from sparsecert.plain import networks
from sparsecert.plain.projected_gradient import projected_gradient, random_starts
from tests.attacks.linear import made

EPS = 0.3


def test_finds_the_worst_image_of_a_linear_classifier() -> None:
    """Two classes: the loss rises along the weights, up or down by the label, until the ball or the bounds end it."""
    model, images, labels = made(images=12, size=6)
    starts = random_starts(0, torch.arange(12), torch.zeros(1).long(), (1, 6, 6))
    found = projected_gradient(model, images, labels, starts, EPS, 0.05, 13)
    away = torch.where(labels == 1, -1.0, 1.0)[:, None, None, None]
    torch.testing.assert_close(found, (images + EPS * away * model.weights.sign()).clamp(0, 1))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("as_tensors", [False, True])
def test_stays_within_ball_and_bounds_and_raises_the_loss(as_tensors: bool, precision: str) -> None:
    model = networks.build("two-convolutions", 1, 10, seed=1)
    images = torch.rand(6, 1, 28, 28, generator=torch.Generator().manual_seed(0)).round(decimals=1)
    labels = model(images).argmax(dim=1)
    starts = random_starts(0, torch.arange(6), torch.zeros(1).long(), (1, 28, 28))
    eps, step = (torch.tensor(EPS), torch.tensor(0.03)) if as_tensors else (EPS, 0.03)
    found = projected_gradient(model, images, labels, starts, eps, step, 12, precision)
    assert not found.requires_grad
    assert (found - images).abs().max() <= EPS + 1e-6
    assert found.min() >= 0
    assert found.max() <= 1
    with torch.no_grad():
        start = (images + EPS * starts).clamp(0, 1)
        before, after = (cross_entropy(model(x), labels, reduction="none") for x in (start, found))
    assert (after > before).all()
    assert all(weight.grad is None for weight in model.parameters())


def test_starts_are_uniform_and_depend_on_seed_image_and_epoch_alone() -> None:
    epoch = torch.tensor([2])
    starts = random_starts(5, torch.arange(200), epoch, (1, 7, 9))
    assert starts.shape == (200, 1, 7, 9)
    assert torch.equal(random_starts(5, torch.tensor([7, 3]), epoch, (1, 7, 9)), starts[[7, 3]])
    assert not torch.equal(random_starts(5, torch.arange(200), epoch + 1, (1, 7, 9)), starts)
    assert not torch.equal(random_starts(6, torch.arange(200), epoch, (1, 7, 9)), starts)
    values = starts.flatten().sort().values
    wanted = torch.linspace(-1, 1, len(values))
    assert (values - wanted).abs().max() < 2 * 1.95 / len(values) ** 0.5  # Kolmogorov-Smirnov at a thousandth
    assert values[0] >= -1
    assert values[-1] < 1
