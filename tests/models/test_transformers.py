"""The transformers on retained pixels and on patches: their tokens, by plain loops, and what they cannot see."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import pad, unfold
from torch.utils.flop_counter import FlopCounterMode

import sparsecert as sc
from sparsecert import models
from sparsecert.encodings import Encoding, MeanFill, NullChannels
from sparsecert.errors import InputError
from sparsecert.models.transformers import PatchTransformer, PixelTransformer, most_shown
from sparsecert.procedures import Exact
from sparsecert.schemes import Bands, Blocks, Grid, Lattice, Scheme, Uniform
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


HEIGHT, WIDTH, PATCH = 10, 9, 4  # 3 x 3 patches, those at the border filled up
OF_PATCHES: list[Scheme] = [
    Blocks(HEIGHT, WIDTH, 3),
    Bands(HEIGHT, WIDTH, 2),
    Bands(HEIGHT, WIDTH, 3, rows=True),
    Grid(HEIGHT, WIDTH, 6),
    Uniform(HEIGHT * WIDTH, 3),
]


def _patch_transformer(scheme: Scheme | None, channels: int = 6) -> PatchTransformer:
    torch.manual_seed(0)
    net = PatchTransformer(channels, 4, scheme, PATCH, width=8, depth=2, heads=2, dropped=0.0)
    nn.init.normal_(net.class_token)
    return net.double().eval()


def _copies(scheme: Scheme, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Encoded copies of images with black parts, and their masks."""
    images = torch.rand(count, 3, HEIGHT, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    images[0] = images[:, :, 2:7] = 0
    masks = scheme.masks(0, range(count), 1)[:, 0]
    return NullChannels()(images, masks), masks.view(count, HEIGHT, WIDTH)


def _place(row: int, column: int, size: int) -> list[float]:
    rates = [10_000 ** (-i / (size // 4)) for i in range(size // 4)]
    turns = [(f, at) for at in (row, column) for f in (math.sin, math.cos)]
    return [f(at * rate) for f, at in turns for rate in rates]


def _all_tokens_hidden_ones_masked(net: PatchTransformer, copies: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
    """The scores where all patches are tokens, and none attends to a patch of which the mask retains nothing."""
    tall, wide = -(-HEIGHT // PATCH), -(-WIDTH // PATCH)
    patches = unfold(pad(copies, (0, wide * PATCH - WIDTH, 0, tall * PATCH - HEIGHT)), PATCH, stride=PATCH)
    places = torch.tensor([_place(row, column, net.width) for row in range(tall) for column in range(wide)])
    tokens = torch.cat((net.class_token.expand(len(copies), 1, -1), net.value(patches.mT) + places), dim=1)
    attended = torch.zeros(len(copies), 1, 1, 1 + tall * wide, dtype=torch.bool)
    attended[..., 0] = True
    for copy, row, column in masks.nonzero().tolist():
        attended[copy, ..., 1 + row // PATCH * wide + column // PATCH] = True
    for block in net.blocks:
        tokens = block(tokens, attended)
    scores: torch.Tensor = net.classify(net.norm(tokens[:, 0]))
    return scores


@pytest.mark.parametrize("scheme", OF_PATCHES, ids=str)
def test_dropping_hidden_patches_equals_masking_them_out(scheme: Scheme) -> None:
    net, (copies, masks) = _patch_transformer(scheme), _copies(scheme, 40)
    with torch.no_grad():
        expected = _all_tokens_hidden_ones_masked(net, copies, masks)
        assert torch.allclose(net(copies), expected, atol=1e-6)
        assert torch.allclose(net.train()(copies), expected, atol=1e-6)


@pytest.mark.parametrize("scheme", OF_PATCHES, ids=str)
def test_a_copys_scores_do_not_depend_on_its_batch(scheme: Scheme) -> None:
    net, (copies, _) = _patch_transformer(scheme), _copies(scheme, 10)
    whole, _ = _copies(Uniform(HEIGHT * WIDTH, HEIGHT * WIDTH), 10)  # shows more patches than any mask
    with torch.no_grad():
        together = net(torch.cat((copies, whole)))
        alone = torch.cat([net(copy[None]) for copy in torch.cat((copies, whole))])
    assert torch.allclose(together, alone, rtol=1e-9, atol=1e-12)
    assert (alone - alone[-1:]).abs().amax(dim=1)[:-1].min() > 1e-3


@pytest.mark.parametrize("scheme", OF_PATCHES, ids=str)
def test_so_many_patches_are_shown_at_most(scheme: Scheme) -> None:
    shown = []
    for mask in scheme.masks(0, range(500), 1)[:, 0].view(-1, HEIGHT, WIDTH):
        shown.append(len({(row // PATCH, column // PATCH) for row, column in mask.nonzero().tolist()}))
    assert max(shown) == most_shown(scheme, PATCH)


@pytest.mark.parametrize(
    ("scheme", "tokens"), [(Blocks(32, 32, 5), 4), (Bands(32, 32, 4), 16), (Grid(32, 32, 8), 16), (None, 64)], ids=str
)
def test_arithmetic_falls_with_the_patches_that_are_hidden(scheme: Scheme | None, tokens: int) -> None:
    net = models.build("vit-tiny-4", 6, 10, scheme=scheme).eval()
    masks = torch.ones(1, 1024, dtype=torch.bool) if scheme is None else scheme.masks(0, [0], 1)[:, 0]
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        net(NullChannels()(torch.rand(1, 3, 32, 32), masks))
    products = (torch.ops.aten.mm, torch.ops.aten.addmm)  # all but attention, which grows with their square
    found = sum(counter.get_flop_counts()["Global"].get(product, 0) for product in products)
    patch, width = 6 * 4 * 4, 192
    assert found == 2 * (tokens * patch * width + 12 * (tokens + 1) * 12 * width**2 + width * 10)


def test_nothing_is_dropped_where_units_are_groups_of_pixels() -> None:
    encoding, scheme = sc.Grouped(NullChannels(), sc.blocks_of(16, 16, 8)), Uniform(4, 2)
    copies = encoding(torch.rand(5, 3, 16, 16).double(), scheme.masks(0, range(5), 1)[:, 0])
    assert torch.allclose(_patch_transformer(scheme).train()(copies), _patch_transformer(None)(copies))


def test_a_copy_that_shows_nothing_has_scores() -> None:
    assert _patch_transformer(Uniform(HEIGHT * WIDTH, 3))(torch.zeros(2, 6, HEIGHT, WIDTH).double()).isfinite().all()


@pytest.mark.parametrize("scheme", [None, Blocks(HEIGHT, WIDTH, 3)], ids=str)
@pytest.mark.parametrize("encoding", [NullChannels(), NullChannels([0.4, 0.5, 0.6], [0.2, 0.3, 0.1])], ids=repr)
def test_an_adapted_one_scores_whole_images_as_before(scheme: Scheme | None, encoding: Encoding) -> None:
    net, x = _patch_transformer(scheme, channels=3), torch.rand(4, 3, HEIGHT, WIDTH, dtype=torch.float64)
    x[0] = 0
    shown = encoding(x, torch.ones(1, HEIGHT * WIDTH, dtype=torch.bool))
    with torch.no_grad():
        assert torch.allclose(net.train()(x), _patch_transformer(None, channels=3)(x))  # all patches are tokens
        net.eval()
        assert torch.allclose(sc.adapt(net, encoding)(shown), net(shown[:, :3]), rtol=1e-9, atol=1e-12)


def test_a_vision_transformer_is_saved_loaded_and_certified(tmp_path: Path) -> None:
    scheme = Bands(8, 8, 2)
    net = sc.adapt(models.build("vit-tiny-4", 1, 3, scheme=scheme), NullChannels()).eval()
    Smoothed(net, scheme, NullChannels(), classes=3).save(tmp_path / "model.safetensors")
    loaded, images = Smoothed.load(tmp_path / "model.safetensors"), torch.rand(3, 1, 8, 8)
    assert loaded.model.most == 4  # type: ignore[union-attr]
    copies = NullChannels()(images, scheme.masks(1, range(3), 1)[:, 0])
    assert torch.equal(loaded.model.eval()(copies), net(copies))  # type: ignore[union-attr]
    assert len(loaded.certify(images, Exact("run-off"), alpha=None).labels) == 3
