"""A network adapted to NULL channels scores whole inputs as before."""

from __future__ import annotations

from collections import OrderedDict

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

import sparsecert as sc
from sparsecert import models
from sparsecert.encodings import Encoding

CONVOLUTIONS = {
    "padded": {"padding": 1},
    "reflected": {"padding": 1, "padding_mode": "reflect"},
    "circular": {"padding": 2, "padding_mode": "circular", "bias": False},
    "same, dilated": {"padding": "same", "dilation": 2},
    "grouped": {"padding": 1, "groups": 3},
    "patches": {"stride": 3},
}
ENCODINGS = [
    sc.NullChannels(),
    sc.NullChannels([0.4, 0.5, 0.6], [0.2, 0.3, 0.1]),
    sc.MeanFill([0.4, 0.5, 0.6]),
    sc.MeanFill(0.5, centred=True),
    sc.Grouped(sc.NullChannels(), sc.blocks_of(9, 9, 3)),
]


def _whole(encoding: Encoding, x: torch.Tensor) -> torch.Tensor:
    return encoding(x, torch.ones(1, encoding.units(x.shape[1:]).count, dtype=torch.bool))


def _net(first: nn.Module) -> nn.Module:
    tail = (nn.BatchNorm2d(6), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(24, 5))
    return nn.Sequential(first, *tail).double().eval()


def _inputs() -> torch.Tensor:
    return torch.rand(4, 3, 9, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("encoding", ENCODINGS, ids=repr)
@pytest.mark.parametrize("settings", CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_whole_inputs_score_as_before(settings: dict[str, object], encoding: Encoding) -> None:
    torch.manual_seed(1)
    net, x = _net(nn.Conv2d(3, 6, 3, **settings)), _inputs()  # type: ignore[arg-type]
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    shown = _whole(encoding, x)
    adapted = sc.adapt(net, encoding)
    assert torch.allclose(adapted(shown), net(shown[:, :3]), rtol=1e-12, atol=1e-13)
    if encoding.config() in (sc.NullChannels().config(), sc.MeanFill([0.4, 0.5, 0.6]).config()):
        assert torch.allclose(adapted(shown), net(x), rtol=1e-12, atol=1e-13)
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())


@pytest.mark.parametrize("shape", [(3, 9, 9), (1, 5), (7,)])
def test_a_linear_layer_sees_values_then_their_complements(shape: tuple[int, ...]) -> None:
    torch.manual_seed(2)
    x = torch.rand(4, *shape, dtype=torch.float64)
    net = nn.Sequential(nn.Flatten(), nn.Linear(x[0].numel(), 4), nn.ReLU(), nn.Linear(4, 2)).double()
    adapted = sc.adapt(net, sc.NullChannels())
    assert torch.allclose(adapted(_whole(sc.NullChannels(), x)), net(x), rtol=1e-12, atol=1e-13)
    assert adapted[1].in_features == 2 * x[0].numel()  # type: ignore[index]


def test_the_new_weights_are_trained() -> None:
    torch.manual_seed(3)
    adapted = sc.adapt(_net(nn.Conv2d(3, 6, 3, padding=1)), sc.NullChannels())
    assert not adapted[0].weight[:, 3:].any()  # type: ignore[index]
    adapted(_whole(sc.NullChannels(), _inputs())).square().sum().backward()
    assert adapted[0].weight.grad[:, 3:].any()  # type: ignore[index]


def test_a_patch_embedding_is_widened() -> None:
    class Patches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.class_token = nn.Parameter(torch.randn(8))
            self.embedding = nn.Sequential(OrderedDict(projection=nn.Conv2d(3, 8, 3, stride=3)))
            self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            tokens = self.embedding(x).flatten(2).transpose(1, 2) + self.class_token
            scores: torch.Tensor = self.head(self.norm(tokens).mean(dim=1))
            return scores

    torch.manual_seed(4)
    net, x = Patches().double(), _inputs()
    adapted = sc.adapt(net, sc.NullChannels())
    assert torch.allclose(adapted(_whole(sc.NullChannels(), x)), net(x), rtol=1e-12, atol=1e-13)


def test_a_model_of_the_package_remains_one() -> None:
    adapted = sc.adapt(models.build("digits-cnn", 1, 10), sc.NullChannels())
    assert models.architecture_of(adapted) == {"name": "digits-cnn", "channels": 2, "classes": 10}
    models.build("digits-cnn", 2, 10).load_state_dict(adapted.state_dict())


class _Standardised(nn.Conv2d):
    """Rescales its weights in every pass."""


@pytest.mark.parametrize(
    ("net", "message"),
    [
        (nn.Sequential(nn.BatchNorm2d(3), nn.Conv2d(3, 4, 1)), "it is a BatchNorm2d"),
        (nn.Sequential(_Standardised(3, 4, 1)), "it is a _Standardised"),
        (nn.Sequential(weight_norm(nn.Conv2d(3, 4, 1))), "it is a ParametrizedConv2d"),
        (nn.Flatten(), "there is no layer with parameters"),
        (len, "adapt takes a torch.nn.Module, got len"),
    ],
    ids=["norm", "subclass", "parametrized", "none", "function"],
)
def test_what_is_not_understood_is_refused(net: nn.Module, message: str) -> None:
    with pytest.raises(sc.InputError, match=message):
        sc.adapt(net, sc.NullChannels())
