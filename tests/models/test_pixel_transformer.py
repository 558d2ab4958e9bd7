"""The transformer on retained pixels: its tokens, by plain loops, and what it cannot see."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sparsecert import models
from sparsecert.encodings import MeanFill, NullChannels
from sparsecert.errors import InputError
from sparsecert.models.pixel_transformer import PixelTransformer
from sparsecert.schemes import Lattice, Scheme, Uniform
from sparsecert.smoothed import Smoothed

SCHEMES: list[Scheme] = [Uniform(36, 5), Lattice(6, 6, 7)]  # the masks of the second retain 5 or 6 pixels


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_a_token_is_the_value_and_the_place_of_a_retained_pixel(scheme: Scheme, channels: int) -> None:
    torch.manual_seed(0)
    net = PixelTransformer(2 * channels, 4, 36, scheme.retained, width=8, depth=2).eval()
    images, masks = torch.rand(9, channels, 6, 6), scheme.masks(0, range(9), 1)[:, 0]
    images[0, :, 2:4] = 0  # black pixels are not NULL
    shown = NullChannels()(images, masks)
    with torch.no_grad():
        scores = net(shown)
        for image, mask, found in zip(images.flatten(2), masks, scores, strict=True):
            tokens = []
            for unit in mask.nonzero().flatten().tolist():
                values = torch.cat((image[:, unit], 1 - image[:, unit]))
                tokens.append(net.value(values) + net.place.weight[unit])
            while len(tokens) < scheme.retained:
                tokens.append(net.value(torch.zeros(2 * channels)) + net.place.weight[36])
            rows = torch.stack(tokens)[None]
            for block in net.blocks:
                rows = block(rows)
            assert torch.allclose(found, net.classify(net.norm(rows[0].mean(dim=0))), atol=1e-5)


def test_only_retained_pixels_and_their_places_matter() -> None:
    scheme = Uniform(36, 5)
    net = models.build("pixel-transformer", 2, 4, scheme=scheme).eval()
    image, (mask,) = torch.rand(1, 1, 6, 6), scheme.masks(0, [0], [0])[0]
    hidden = torch.where(mask.view(6, 6), image, 1 - image)
    mirrored = mask.view(6, 6).flip(1).flatten()
    seen = [(image, mask), (hidden, mask), (image.flip(3), mirrored)]
    with torch.no_grad():
        here, there, elsewhere = (net(NullChannels()(one, retained[None])) for one, retained in seen)
    assert torch.equal(here, there)
    assert not torch.allclose(here, elsewhere)  # the same values in other places


def test_a_model_file_is_loaded_and_certified(tmp_path: Path) -> None:
    scheme = Uniform(36, 5)
    net = models.build("pixel-transformer", 2, 4, scheme=scheme).eval()
    Smoothed(net, scheme, NullChannels(), classes=4).save(tmp_path / "model.safetensors")
    loaded, images = Smoothed.load(tmp_path / "model.safetensors"), torch.rand(3, 1, 6, 6)
    copies = NullChannels()(images, scheme.masks(1, range(3), 1)[:, 0])
    assert torch.equal(loaded.model.eval()(copies), net(copies))
    assert (loaded.certify(images, n0=20, n=50, alpha=0.05).counts.sum(axis=1) == 50).all()


def test_another_encoding_is_refused() -> None:
    with pytest.raises(InputError, match="needs the encoding null-channels, got 3 channels"):
        models.build("pixel-transformer", MeanFill(0.0).channels(3), 4, scheme=Uniform(36, 5))
