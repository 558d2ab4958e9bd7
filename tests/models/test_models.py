"""Models: shapes and parameter counts against the published ones."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sparsecert import models
from sparsecert.encodings import MeanFill, NullChannels
from sparsecert.errors import InputError


def _size(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("name", "channels", "classes", "size"),
    [
        ("resnet18-cifar", 3, 10, 11_173_962),
        ("resnet50-cifar", 3, 10, 23_520_842),
        ("resnet50", 3, 1000, 25_557_032),
        ("vit-small-16", 3, 1000, 22_050_664 - 197 * 384),  # without learned places
        ("digits-cnn", 2, 10, 165_930),
        # Table 9 of the paper, layer by layer: weights and biases
        ("mnist-cnn", 2, 10, sum((2 * 16 * 64 + 64, 64 * 16 * 128 + 128, 6272 * 500 + 500, 500 * 100 + 100, 1010))),
        ("mnist-cnn", 1, 10, sum((1 * 16 * 64 + 64, 64 * 16 * 128 + 128, 6272 * 500 + 500, 500 * 100 + 100, 1010))),
    ],
)
def test_parameter_counts_are_the_published_ones(name: str, channels: int, classes: int, size: int) -> None:
    assert _size(models.build(name, channels, classes)) == size


@pytest.mark.parametrize(
    ("name", "side", "first"), [("resnet18-cifar", 32, 9), ("resnet50-cifar", 32, 9), ("resnet50", 224, 49)]
)
def test_three_more_input_channels_widen_the_first_layer_alone(name: str, side: int, first: int) -> None:
    three, six = models.build(name, MeanFill(0.5).channels(3), 10), models.build(name, NullChannels().channels(3), 10)
    assert _size(six) - _size(three) == 3 * first * 64
    with torch.no_grad():
        assert six.eval()(torch.rand(1, 6, side, side)).shape == (1, 10)


@pytest.mark.parametrize(("name", "side"), [("mnist-cnn", 28), ("digits-cnn", 8)])
def test_small_networks_take_their_images(name: str, side: int) -> None:
    assert models.build(name, 2, 7)(torch.rand(3, 2, side, side)).shape == (3, 7)


def test_the_mnist_network_has_the_papers_shapes() -> None:
    shapes = []
    model = models.build("mnist-cnn", 2, 10)
    for layer in model:
        layer.register_forward_hook(lambda _module, _inputs, output: shapes.append(tuple(output.shape[1:])))
    model(torch.rand(1, 2, 28, 28))
    assert shapes == [(64, 14, 14)] * 2 + [(128, 7, 7)] * 2 + [(6272,)] + [(500,)] * 2 + [(100,)] * 2 + [(10,)]


def test_initialisation_follows_the_seed_and_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, again, other = (models.build("digits-cnn", 2, 10, seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first[0].weight, again[0].weight)
    assert not torch.equal(first[0].weight, other[0].weight)


def test_a_model_knows_its_architecture() -> None:
    model = models.build("digits-cnn", 2, 10)
    assert models.architecture_of(model) == {"name": "digits-cnn", "channels": 2, "classes": 10}
    assert models.architecture_of(nn.Linear(2, 2)) is None


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(
        InputError, match="model must be one of bag-of-words, digits-cnn, four-convolutions, grid-resnet"
    ):
        models.build("vgg", 3, 10)
