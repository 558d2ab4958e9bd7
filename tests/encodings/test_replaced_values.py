"""Replaced values: a kept unit shows its own value, a replaced one each other value equally often."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sparsecert.encodings import Encoding, MeanFill, NullChannels, ReplacedValues, from_config
from sparsecert.errors import InputError
from sparsecert.schemes import RandomValues, Scheme, Uniform
from sparsecert.smoothed import Smoothed
from sparsecert.votes.engine import fuse_on_cpu, fuse_on_cuda
from sparsecert.votes.engine.encode import is_unitwise
from sparsecert.votes.engine.layout import layout_of
from sparsecert.votes.voter import Voter


@pytest.mark.parametrize("values", [2, 3, 17, 256])
def test_every_value_shows_itself_and_each_other_once(values: int) -> None:
    """All values by all masks: row v of the table is v at 0, and the others, in rising order, at 1, 2, ..."""
    own = torch.arange(values).repeat_interleave(values)
    masks = torch.arange(values, dtype=torch.int32).repeat(values)
    shown = ReplacedValues(values)((own / (values - 1))[:, None], masks[:, None])
    table = (shown.view(values, values) * (values - 1)).round().long()
    for value, row in enumerate(table.tolist()):
        assert row[0] == value
        assert row[1:] == [other for other in range(values) if other != value]
    assert torch.equal(shown.view(values, values)[:, 0], torch.arange(values) / (values - 1))


def test_bytes_are_shown_as_they_are() -> None:
    pixels = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16).float() / 255
    assert torch.equal(ReplacedValues()(pixels, torch.zeros(1, 256, dtype=torch.int32)), pixels)


def test_numbers_are_rounded_one_by_one() -> None:
    kept = torch.zeros(1, 6, dtype=torch.int32)
    inputs = torch.tensor([[-3.0, 0.2, 0.3, 0.8, 1.0, 70.0]])
    assert ReplacedValues(3)(inputs, kept).tolist() == [[[0.0, 0.0, 0.5, 1.0, 1.0, 1.0]]]
    whole = torch.rand(5, 3, 2, 2, generator=torch.Generator().manual_seed(0))
    masks = RandomValues(12, "0.5", 4).masks(0, 5, 1)[:, 0]
    together = ReplacedValues(4)(whole, masks)
    for unit in range(12):
        changed = whole.clone()
        changed.view(5, 12)[:, unit] += 0.4
        others = torch.arange(12) != unit
        assert torch.equal(ReplacedValues(4)(changed, masks).view(5, 12)[:, others], together.view(5, 12)[:, others])


def test_every_entry_of_a_colour_image_is_a_unit() -> None:
    encoding = ReplacedValues()
    assert encoding.units((3, 4, 5)).count == 60
    assert encoding.units((7,)).count == 7
    assert encoding.channels(3) == 3
    one, inputs = RandomValues(60, "0.1").masks(0, 1, 1)[0], torch.rand(6, 3, 4, 5)
    assert torch.equal(encoding(inputs, one), encoding(inputs, one.expand(6, 60)))
    assert torch.equal(from_config(encoding.config())(inputs, one), encoding(inputs, one))


def test_gradients_flow_through_what_is_kept() -> None:
    inputs = torch.rand(4, 1, 3, 3).requires_grad_()
    masks = RandomValues(9, "0.5", 17).masks(0, 4, 1)[:, 0]
    shown = ReplacedValues(17)(inputs, masks)
    assert torch.equal(shown, ReplacedValues(17)(inputs.detach(), masks))
    (slopes,) = torch.autograd.grad(shown.sum(), inputs)
    assert torch.equal(slopes.view(4, 9), (masks == 0).float())


@pytest.mark.parametrize(
    ("scheme", "encoding"),
    [
        (RandomValues(16, "0.5", 17), NullChannels()),
        (RandomValues(16, "0.5", 17), MeanFill(0.5)),
        (RandomValues(16, "0.5", 17), ReplacedValues(16)),
        (Uniform(16, 3), ReplacedValues(2)),
    ],
)
def test_masks_that_mean_something_else_are_refused(scheme: Scheme, encoding: Encoding) -> None:
    model = nn.Flatten()
    with pytest.raises(InputError, match=r"the encoding of .* must be"):
        Smoothed(model, scheme, encoding)
    with pytest.raises(InputError, match=r"the encoding of .* must be"):
        Voter(model, scheme, encoding, torch.rand(1, 1, 4, 4))
    assert isinstance(Smoothed(model, RandomValues(16, "0.5", 17)).encoding, ReplacedValues)
    assert isinstance(Smoothed(model, Uniform(16, 3)).encoding, NullChannels)


def test_no_fast_form_that_was_made_for_ablation_is_taken() -> None:
    """Neither its tables nor its choice between shown and NULL say what a replaced unit shows."""
    layers = (nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 16, 5))
    model, cpu = nn.Sequential(*layers), torch.device("cpu")
    assert layout_of(ReplacedValues(17), (3, 4, 4), 1, 1, 8) is None
    assert not is_unitwise(ReplacedValues(17), 3)
    assert fuse_on_cpu(model, ReplacedValues(17), torch.bfloat16, (3, 4, 4), cpu) is None
    assert fuse_on_cuda(model, ReplacedValues(17), torch.bfloat16, (3, 4, 4), cpu) is None
    assert is_unitwise(NullChannels(), 3)
