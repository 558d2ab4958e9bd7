"""Networks for grids: each copy is scored by the pixels that its mask retains, seen as a small image."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sparsecert import models
from sparsecert.encodings import MeanFill, NullChannels
from sparsecert.errors import InputError
from sparsecert.models.grid import GridNetwork
from sparsecert.schemes import Grid, Lattice
from sparsecert.smoothed import Smoothed
from sparsecert.votes.engine import fused_scorer


def _copies(scheme: Grid, images: torch.Tensor) -> torch.Tensor:
    """All copies of each image, mask by mask."""
    masks = scheme.all_masks().repeat_interleave(len(images), dim=0)
    return NullChannels()(images.repeat(len(scheme.table), 1, 1, 1), masks)


@pytest.mark.parametrize(("height", "width"), [(6, 9), (5, 7)])
def test_the_network_sees_the_retained_pixels_and_where_they_are(height: int, width: int) -> None:
    """By slicing; cells that the edge cuts off may have no pixel, which is NULL."""
    images = torch.rand(2, 3, height, width)
    images[0, :, 2:4] = 0  # black pixels are not NULL
    seen: list[torch.Tensor] = []
    net = GridNetwork(3, torch.nn.Identity())
    for number in range(9):
        top, left = divmod(number, 3)
        pixels = images[:, :, top::3, left::3]
        small = torch.zeros(2, 8, -(-height // 3), -(-width // 3))
        small[:, :3, : pixels.shape[2], : pixels.shape[3]] = pixels
        small[:, 3:6, : pixels.shape[2], : pixels.shape[3]] = 1 - pixels
        small[:, 6], small[:, 7] = top / 3 - 0.5, left / 3 - 0.5
        seen.append(small)
    assert torch.allclose(net(_copies(Grid(height, width, 3), images)), torch.cat(seen))
    whole = NullChannels()(images, torch.ones(1, height * width, dtype=torch.bool))
    assert torch.equal(net.score_all(whole), net(_copies(Grid(height, width, 3), images)))


@pytest.mark.parametrize("name", ["grid-resnet", "grid-resnet-wide"])
def test_a_model_file_is_loaded_and_certified(name: str, tmp_path: Path) -> None:
    scheme = Grid(12, 12, 3)
    net = models.build(name, 6, 4, scheme=scheme).eval()
    Smoothed(net, scheme, NullChannels(), classes=4).save(tmp_path / "model.safetensors")
    loaded, images = Smoothed.load(tmp_path / "model.safetensors"), torch.rand(3, 3, 12, 12)
    assert torch.equal(loaded.model.eval()(_copies(scheme, images)), net(_copies(scheme, images)))
    assert loaded.certify(images).radii.max() >= 0


@pytest.mark.parametrize("size", [12, 11])
@pytest.mark.parametrize("encoding", [NullChannels(), NullChannels((0.1, 0.2, 0.3), (0.5, 0.6, 0.7))], ids=str)
def test_the_engine_gathers_what_the_copies_would_show(size: int, encoding: NullChannels) -> None:
    scheme = Grid(size, size, 3)
    net = models.build("grid-resnet", 6, 4, scheme=scheme).eval()
    scorer = fused_scorer(net, encoding, torch.float32, (3, size, size), torch.device("cpu"))
    assert scorer is not None
    images, which, masks = torch.rand(2, 3, size, size), torch.arange(18) % 2, scheme.all_masks().repeat(2, 1)
    with torch.no_grad():
        assert torch.allclose(scorer(images, which, masks), net(encoding(images[which], masks)), atol=1e-6)


def test_what_no_grid_is_for_is_refused() -> None:
    with pytest.raises(InputError, match="grid-resnet needs the scheme grid, got Lattice"):
        models.build("grid-resnet", 6, 4, scheme=Lattice(6, 6, 7))
    with pytest.raises(InputError, match="needs the encoding null-channels, got 3 channels"):
        models.build("grid-resnet", MeanFill(0.0).channels(3), 4, scheme=Grid(6, 6, 3))
