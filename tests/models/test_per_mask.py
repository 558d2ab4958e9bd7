"""Networks per mask: each copy is scored by its mask's own network, from what that mask retains."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn.functional import relu

from sparsecert import models
from sparsecert.encodings import MeanFill, NullChannels
from sparsecert.errors import InputError
from sparsecert.models.per_mask import PerMask
from sparsecert.schemes import FixedMasks, Lattice, Partition, Spread, Uniform
from sparsecert.smoothed import Smoothed

SETS: list[FixedMasks] = [Lattice(6, 6, 7), Partition(36, 4, rounds=3), Spread(6, 6, 5)]


def _copies(scheme: FixedMasks, images: torch.Tensor) -> torch.Tensor:
    """All copies of each image, mask by mask."""
    masks = scheme.all_masks().repeat_interleave(len(images), dim=0)
    return NullChannels()(images.repeat(len(scheme.table), 1, 1, 1), masks)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("scheme", SETS, ids=str)
def test_a_copy_is_scored_by_the_network_of_its_mask(scheme: FixedMasks, channels: int) -> None:
    """By plain loops; in any order, by itself, and without copies being made."""
    torch.manual_seed(0)
    net, images = PerMask(2 * channels, 4, scheme.table, width=5), torch.rand(3, channels, 6, 6)
    images[0, :, 2:4] = 0  # black pixels are not NULL
    copies = _copies(scheme, images)
    scores = net(copies)
    for mask, places in enumerate(scheme.table):
        for image in range(3):
            seen = torch.zeros(channels, int(scheme.table.sum(axis=1).max()))
            seen[:, : places.sum()] = images[image].flatten(1)[:, places.nonzero()[0]]
            row = seen.flatten()
            for layer, (weight, bias) in enumerate(zip(net.weights, net.biases, strict=True)):
                row = (relu(row) if layer else row) @ weight[mask] + bias[mask, 0]
            assert torch.allclose(scores[3 * mask + image], row, atol=1e-5)
    shuffled = torch.randperm(len(copies))[: len(copies) - 2]
    assert torch.allclose(net(copies[shuffled]), scores[shuffled], atol=1e-5)
    assert torch.allclose(net(copies[5:6]), scores[5:6], atol=1e-5)
    whole = NullChannels()(images, torch.ones(1, 36, dtype=torch.bool))
    assert torch.allclose(net.score_all(whole), scores, atol=1e-5)


def test_networks_of_one_mask_are_averaged() -> None:
    scheme = Lattice(6, 6, 7)
    net, copies = PerMask(2, 3, scheme.table, width=4, networks=3), _copies(scheme, torch.rand(2, 1, 6, 6))
    parts = []
    for number in range(3):
        part = PerMask(2, 3, scheme.table, width=4)
        part.load_state_dict({name: t.view(3, 7, *t.shape[1:])[number] for name, t in net.state_dict().items()})
        parts.append(part(copies))
    assert torch.allclose(net(copies), torch.stack(parts).mean(dim=0), atol=1e-6)


def test_a_file_holds_the_weights_alone_and_the_scheme_rebuilds_the_rest(tmp_path: Path) -> None:
    scheme = Spread(6, 6, 5)
    net = models.build("per-mask", 2, 4, scheme=scheme)
    Smoothed(net, scheme, NullChannels(), classes=4).save(tmp_path / "model.safetensors")
    loaded = Smoothed.load(tmp_path / "model.safetensors")
    copies = _copies(scheme, torch.rand(2, 1, 6, 6))
    assert torch.equal(loaded.model(copies), net(copies))
    assert {name.split(".")[0] for name in net.state_dict()} == {"weights", "biases"}
    assert loaded.certify(torch.rand(3, 1, 6, 6)).radii.max() >= 0


def test_what_has_no_network_per_mask_is_refused() -> None:
    with pytest.raises(InputError, match="a network per mask needs a fixed set of masks, got the scheme Uniform"):
        models.build("per-mask", 2, 4, scheme=Uniform(36, 4))
    with pytest.raises(InputError, match="needs the encoding null-channels, got 1 channels"):
        models.build("per-mask", MeanFill(0.0).channels(1), 4, scheme=Lattice(6, 6, 7))
    with pytest.raises(InputError, match="cannot be told apart"):
        PerMask(2, 4, Partition(4, 1, rounds=2).table)
