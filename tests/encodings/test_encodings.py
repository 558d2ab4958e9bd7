"""Encodings: what the model sees, and that nothing else gets through."""

from __future__ import annotations

import pytest
import torch

from sparsecert.encodings import Encoding, MeanFill, NullChannels, from_config
from sparsecert.errors import InputError
from sparsecert.schemes import Uniform
from tests.contracts import ENCODINGS


def _masks(rows: int, units: int, keep: int = 2) -> torch.Tensor:
    return Uniform(units, keep).masks(0, rows, 1)[:, 0]


@pytest.mark.parametrize("encoding", ENCODINGS, ids=repr)
@pytest.mark.parametrize("shape", [(1, 2, 3), (1, 6), (6,), (3, 3, 2), (2, 1, 2, 3)])
def test_ablated_values_leave_no_trace(encoding: Encoding, shape: tuple[int, ...]) -> None:
    """Bit for bit, signs of zero included: anything at an ablated unit gives the same result, NaN and infinity too."""
    masks = _masks(8, 6)
    inputs = torch.rand(8, *shape) - 0.5
    expected = encoding(inputs, masks)
    hidden = ~masks.view(8, *(1,) * (len(shape) > 1), *shape[1:] if len(shape) > 1 else shape)
    for value in (-7.0, -0.0, float("nan"), float("inf")):
        changed = torch.where(hidden, value, inputs)
        assert torch.equal(encoding(changed, masks).view(torch.int32), expected.view(torch.int32))


@pytest.mark.parametrize("encoding", ENCODINGS, ids=repr)
def test_retained_values_and_the_mask_get_through(encoding: Encoding) -> None:
    masks, inputs = _masks(4, 6), torch.rand(4, 1, 2, 3)
    result = encoding(inputs, masks)
    other = inputs.clone()
    other.view(4, 6)[masks] += 0.1
    assert (encoding(other, masks) != result).flatten(1).any(dim=1).all()
    assert result.shape == (4, encoding.channels(1), 2, 3)


@pytest.mark.parametrize("encoding", ENCODINGS, ids=repr)
def test_the_input_is_not_edited_and_the_config_survives(encoding: Encoding) -> None:
    inputs = torch.rand(4, 1, 2, 3)
    before = inputs.clone()
    masks = _masks(4, 6)
    first = encoding(inputs, masks)
    assert torch.equal(inputs, before)
    assert torch.equal(from_config(encoding.config())(inputs, masks), first)


def test_null_channels_is_s_and_one_minus_s() -> None:
    inputs = torch.tensor([[[[0.0, 0.25, 1.0]]]])
    masks = torch.tensor([[True, True, False]])
    assert NullChannels()(inputs, masks).tolist() == [[[[0.0, 0.25, 0.0]], [[1.0, 0.75, 0.0]]]]


def test_three_channels_become_six_and_a_pixel_is_one_unit() -> None:
    inputs = torch.rand(5, 3, 4, 4)
    masks = _masks(5, 16, keep=3)
    encoding = NullChannels()
    result = encoding(inputs, masks)
    assert encoding.channels(3) == 6
    assert encoding.units((3, 4, 4)).count == 16
    seen = masks.view(5, 1, 4, 4).expand(-1, 3, -1, -1)
    assert torch.equal(result[:, :3], torch.where(seen, inputs, 0))
    assert torch.equal(result[:, 3:], torch.where(seen, 1 - inputs, 0))


def test_normalisation_comes_before_the_encoding() -> None:
    mean, std = [0.5, 0.4, 0.3], [0.2, 0.25, 0.5]
    inputs, masks = torch.rand(2, 3, 2, 2), torch.ones(2, 4, dtype=torch.bool)
    result = NullChannels(mean, std)(inputs, masks)
    standardised = (inputs - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
    torch.testing.assert_close(result, torch.cat((standardised, 1 - standardised), dim=1))


def test_mean_fill_puts_the_mean_where_null_is() -> None:
    inputs = torch.rand(2, 3, 1, 2)
    masks = torch.tensor([[True, False], [False, True]])
    result = MeanFill([0.1, 0.2, 0.3])(inputs, masks)
    assert torch.equal(result[0, :, 0, 0], inputs[0, :, 0, 0])
    assert torch.equal(result[0, :, 0, 1], torch.tensor([0.1, 0.2, 0.3]))
    assert MeanFill(0.5).channels(3) == 3
    centred = MeanFill([0.1, 0.2, 0.3], centred=True)(inputs, masks)
    torch.testing.assert_close(centred, result - torch.tensor([0.1, 0.2, 0.3]).view(3, 1, 1))
    assert (centred[0, :, 0, 1] == 0).all()


def test_one_mask_serves_a_minibatch() -> None:
    inputs, mask = torch.rand(5, 1, 2, 3), _masks(1, 6)
    assert torch.equal(NullChannels()(inputs, mask), NullChannels()(inputs, mask.expand(5, 6)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NullChannels(mean=0.5), "go together"),
        (lambda: NullChannels(mean=0.5, std=0.0), "std must be positive"),
        (lambda: MeanFill(float("nan")), "mean must be a finite number"),
        (lambda: MeanFill(None), "mean must be a finite number"),
        (lambda: MeanFill([]), "mean must be a finite number"),
        (lambda: MeanFill([0.1, 0.2])(torch.rand(1, 3, 2), torch.ones(1, 2, dtype=torch.bool)), "3 channels"),
        (lambda: from_config({"kind": "braille"}), "encoding kind must be one of"),
    ],
)
def test_refusals(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(InputError, match=message):
        make()
