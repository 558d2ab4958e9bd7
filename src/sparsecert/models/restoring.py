"""A network of whole images behind one that fills what is NULL, so that it can be certified as it is."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import nn

from sparsecert.errors import InputError, describe


def restoring(restorer: nn.Module, net: nn.Module) -> nn.Module:
    """A base classifier from a network of whole images: `restorer` fills what is NULL, and `net` classifies the result.

        net = torchvision.models.resnet50(weights="DEFAULT")
        encoding = NullChannels(mean, std)                     # what net was trained on
        restorer = train_restorer(images, scheme, encoding)    # without labels
        g = Smoothed(restoring(restorer, net), scheme, encoding)

    `restorer` maps copies Float[rows, 2 * channels, ...], encoded by `NullChannels`, to values Float[rows, channels,
    ...] as the encoding shows them; of these, only those at NULL are used. So whole inputs score exactly as in `net`.

    Guarantee: the certificates of every scheme hold as they are. `NullChannels` makes a copy from the mask and the
    retained units alone, and what is computed here depends on that copy alone: which entries are NULL is read off the
    copy, (0, 0) there and (v, 1 - v) elsewhere; the filling is the restorer's output on the copy; and the scores are
    those of `net` on both. Hence this is one more base classifier f of ablated copies, whose event {f = i} Theorem 1
    speaks of, and copies of x and x' with a mask that retains no perturbed unit score alike. As of every model, a row's
    scores must depend on that row alone, in eval mode: the probe before each run looks for violations in both networks.

    It is a module rather than an encoding, so that it moves between devices, changes its precision and goes into model
    files like any other: hand it, with untrained weights, to `Smoothed.load`, or name a function that builds it,
    `--model module:factory`.
    """
    for name, module in (("restorer", restorer), ("net", net)):
        if not isinstance(module, nn.Module):
            raise InputError(f"{name} must be a torch.nn.Module, got {describe(module)}")
    return Restoring(restorer, net)


class Restoring(nn.Module):
    """See `restoring`."""

    def __init__(self, restorer: nn.Module, net: nn.Module) -> None:
        super().__init__()
        self.restorer, self.net = restorer, net

    def forward(self, copies: torch.Tensor) -> Any:
        """The network's scores of the filled copies."""
        return self.net(self.fill(copies))

    def fill(self, copies: torch.Tensor) -> torch.Tensor:
        """Float[rows, channels, ...]: the copies' values, and the restorer's where they are NULL."""
        if copies.shape[1] % 2:
            raise InputError(
                f"restoring needs copies encoded by NullChannels, with twice the channels, got {copies.shape[1]}"
            )
        values, complements = copies.chunk(2, dim=1)
        retained = values + complements > 0.5  # v + (1 - v), and 0 + 0 at NULL
        return torch.where(retained, values, self.restorer(copies))


class Restorer(nn.Module):
    """A small U-Net for `restoring`: from encoded copies of images with `channels` channels to their values.

    Each of `depth` levels halves the image and doubles the `width`, so that the few pixels that are retained are seen
    from far away.
    """

    def __init__(self, channels: int, width: int = 32, depth: int = 3) -> None:
        super().__init__()
        widths = [width << level for level in range(depth + 1)]
        self.first = _block(2 * channels, width)
        self.down = nn.ModuleList(_block(fine, coarse, stride=2) for fine, coarse in pairwise(widths))
        self.up = nn.ModuleList(_block(fine + coarse, fine) for fine, coarse in pairwise(widths))
        self.last = nn.Conv2d(width, channels, kernel_size=1)

    def forward(self, copies: torch.Tensor) -> torch.Tensor:
        """Float[rows, channels, height, width]."""
        levels = [self.first(copies)]
        for layer in self.down:
            levels.append(layer(levels[-1]))
        coarse = levels.pop()
        for layer in reversed(self.up):
            fine = levels.pop()
            coarse = layer(torch.cat((fine, nn.functional.interpolate(coarse, fine.shape[2:])), dim=1))
        values: torch.Tensor = self.last(coarse)
        return values


def _block(channels: int, outputs: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, outputs, kernel_size=3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )
