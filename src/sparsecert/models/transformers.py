"""Transformers whose tokens are the retained pixels of a copy, or the patches that show any."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import dropout, gelu, max_pool2d, pad, pixel_unshuffle, scaled_dot_product_attention

from sparsecert.errors import InputError
from sparsecert.registry import MODELS
from sparsecert.schemes import Scheme
from sparsecert.schemes.fixed_masks import ImageMasks


class PixelTransformer(nn.Module):
    """Scores a copy by the units it retains, at most `retained` of `units`, as a set of tokens.

    A token is the unit's value plus a learned embedding of its place. What is NULL costs nothing: where masks retain a
    few pixels of hundreds, this takes a tenth of the arithmetic of a convolutional network, and less as they retain
    fewer. Takes what `NullChannels` shows, which is zero in every channel only where a unit is NULL. A mask that
    retains fewer units has empty tokens, all alike.
    """

    def __init__(
        self,
        channels: int,
        classes: int,
        units: int,
        retained: int,
        width: int = 128,
        depth: int = 3,
        heads: int = 2,
        dropped: float = 0.1,
    ) -> None:
        super().__init__()
        self.units, self.retained = units, retained
        self.value = nn.Linear(channels, width)
        self.place = nn.Embedding(units + 1, width)  # the last is that of an empty token
        nn.init.normal_(self.place.weight, std=0.5)
        self.blocks = nn.ModuleList(Block(width, heads, dropped) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.classify = nn.Linear(width, classes)

    def forward(self, copies: torch.Tensor) -> torch.Tensor:
        """Scores of ablated copies: [rows, classes]."""
        values = copies.flatten(2)
        places = first_places((values != 0).any(dim=1), self.retained)
        tokens = self.value(at_places(values, places)) + self.place(places)
        for block in self.blocks:
            tokens = block(tokens)
        scores: torch.Tensor = self.classify(self.norm(tokens.mean(dim=1)))
        return scores


class PatchTransformer(nn.Module):
    """A vision transformer that drops hidden patches: a copy is scored by the patches that show a pixel of it.

    Dosovitskiy et al., "An Image is Worth 16x16 Words" (ICLR 2021), with sines and cosines for the places of patches,
    so that images may have any size. A token is a patch of `patch` x `patch` pixels in all channels, so NULL within it
    is seen; patches beyond the border are filled up with NULL. The scores are those of the class token. They equal the
    scores of all patches where no token attends to a hidden one, and cost less the fewer are shown: blocks and bands
    hide most patches, random pixels few.

    All copies get as many tokens as the patches that any mask of `scheme` shows; a copy with fewer has empty ones that
    no other attends to. So its scores do not depend on the rest of the batch, and a training step has one shape. In
    eval mode a batch that shows more, of whole images say, gets more.

    Takes what `NullChannels` shows, which is zero in every channel only where a pixel is NULL. An odd number of
    channels shows no NULL: all patches are tokens, as in a network of whole images, which `adapt` widens.
    """

    def __init__(
        self,
        channels: int,
        classes: int,
        scheme: Scheme | None,
        patch: int,
        width: int,
        depth: int,
        heads: int,
        dropped: float = 0.1,
    ) -> None:
        super().__init__()
        self.patch, self.width = patch, width
        self.units, self.most = (0, 0) if scheme is None else (scheme.units, most_shown(scheme, patch))
        self.value = nn.Linear(channels * patch**2, width)
        self.class_token = nn.Parameter(torch.zeros(width))
        self.blocks = nn.ModuleList(Block(width, heads, dropped) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.classify = nn.Linear(width, classes)

    def forward(self, copies: torch.Tensor) -> torch.Tensor:
        """Scores of ablated copies: [rows, classes]."""
        rows, channels, height, width = copies.shape
        patches = pixel_unshuffle(pad(copies, (0, -width % self.patch, 0, -height % self.patch)), self.patch)
        values = patches.flatten(2)
        shown = (values != 0).any(dim=1) | (channels % 2 == 1)
        drops = channels % 2 == 0 and self.units >= height * width  # not where units are groups of pixels
        places = first_places(shown, self._tokens(shown) if drops else shown.shape[1])
        positions = pad(sines_and_cosines(patches.shape[2], patches.shape[3], self.width, copies.device), (0, 0, 0, 1))
        tokens = self.value(at_places(values, places))
        tokens = torch.cat((self.class_token.expand(rows, 1, -1), tokens + positions[places].to(tokens.dtype)), dim=1)
        attended = pad(places < values.shape[2], (1, 0), value=True)[:, None, None]
        for block in self.blocks:
            tokens = block(tokens, attended)
        scores: torch.Tensor = self.classify(self.norm(tokens[:, 0]))
        return scores

    def _tokens(self, shown: torch.Tensor) -> int:
        """How many tokens each copy gets where hidden patches are dropped."""
        most = min(self.most, shown.shape[1])
        return most if self.training else max(most, int(shown.sum(dim=1).max()))


def most_shown(scheme: Scheme, patch: int) -> int:
    """At most so many patches show a retained pixel, where the units are pixels; exact for masks of an image."""
    if not isinstance(scheme, ImageMasks):
        return scheme.retained
    masks = scheme.all_masks().view(-1, 1, scheme.height, scheme.width)
    return int(max_pool2d(masks.float(), patch, ceil_mode=True).sum(dim=(1, 2, 3)).max())


def first_places(shown: torch.Tensor, count: int) -> torch.Tensor:
    """int64[rows, count]: the first `count` places that each row shows, in order; then the number of all places."""
    rows, places = shown.shape
    order = torch.where(shown, shown.cumsum(1) - 1, count).clamp(max=count)
    every = torch.arange(places, device=shown.device).expand_as(order)
    found = torch.full((rows, count + 1), places, device=shown.device)
    return found.scatter_(1, order, every)[:, :count]


def at_places(values: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Float[rows, count, channels]: the values, [rows, channels, all places], at these places; 0 beyond the last."""
    return pad(values, (0, 1)).gather(2, places[:, None].expand(-1, values.shape[1], -1)).transpose(1, 2)


def sines_and_cosines(height: int, width: int, size: int, device: torch.device) -> torch.Tensor:
    """Float[height * width, size]: a quarter each of sines and cosines of the row, and of the column."""
    rates = 10_000.0 ** (-torch.arange(size // 4, device=device) / (size // 4))
    y, x = (torch.arange(side, device=device)[:, None] * rates for side in (height, width))
    y, x = y[:, None].expand(-1, width, -1), x[None].expand(height, -1, -1)
    return torch.cat((y.sin(), y.cos(), x.sin(), x.cos()), dim=2).flatten(0, 1)


class Block(nn.Module):
    """Attention, then two dense layers; each reads what the layer norm makes of its input and adds to it."""

    def __init__(self, width: int, heads: int, dropped: float) -> None:
        super().__init__()
        self.heads, self.dropped = heads, dropped
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, tokens: torch.Tensor, attended: torch.Tensor | None = None) -> torch.Tensor:
        """attended: bool[rows, 1, 1, tokens], the tokens to attend to; None: all."""
        rows, count, width = tokens.shape
        parts = self.attend(self.norms[0](tokens)).view(rows, count, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind()
        seen = scaled_dot_product_attention(query, key, value, attn_mask=attended)
        seen = seen.transpose(1, 2).reshape(rows, count, width)
        tokens = tokens + dropout(self.project(seen), self.dropped, self.training)
        hidden = gelu(self.widen(self.norms[1](tokens)))
        return tokens + dropout(self.narrow(hidden), self.dropped, self.training)


@MODELS.register("pixel-transformer")
def pixel_transformer(channels: int, classes: int, scheme: Scheme) -> nn.Module:
    """A transformer of three blocks on the pixels that a mask retains: 0.7 M parameters for 28 x 28 pixels."""
    if channels % 2:
        raise InputError(f"model pixel-transformer needs the encoding null-channels, got {channels} channels")
    return PixelTransformer(channels, classes, scheme.units, scheme.retained)


@MODELS.register("vit-tiny-4")
def vit_tiny_4(channels: int, classes: int, scheme: Scheme | None = None) -> nn.Module:
    """ViT-Tiny on the patches of 4 x 4 pixels that a mask shows, for small images: 5.4 M parameters."""
    return PatchTransformer(channels, classes, scheme, patch=4, width=192, depth=12, heads=3)


@MODELS.register("vit-small-16")
def vit_small_16(channels: int, classes: int, scheme: Scheme | None = None) -> nn.Module:
    """ViT-Small on the patches of 16 x 16 pixels that a mask shows, for photographs: 21.9 M parameters."""
    return PatchTransformer(channels, classes, scheme, patch=16, width=384, depth=12, heads=6)
