"""A small network for each mask of a fixed set, all of them computed as one batched product."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import torch
from torch import nn

from sparsecert.counts import Bool, Int64
from sparsecert.errors import InputError
from sparsecert.registry import MODELS
from sparsecert.schemes import FixedMasks, Scheme

EXACT = 1 << 24  # up to which fp32 holds every integer


class PerMask(nn.Module):
    """For each of the m masks `networks` perceptrons, on the values of its units alone, whose scores are averaged.

    Takes what `NullChannels` shows, the values in the first half of the channels, zero in all of them where a unit is
    NULL. The mask of a copy is recognised by the units that it retains: by the sum of a number for each, which differs
    from mask to mask. Scores depend on that copy alone, and no weight serves two masks.
    """

    separate = True  # what `training.independent` asks for

    places: torch.Tensor
    order: torch.Tensor
    numbers: torch.Tensor
    sums: torch.Tensor

    def __init__(
        self, channels: int, classes: int, masks: Bool, width: int = 128, depth: int = 2, networks: int = 1
    ) -> None:
        super().__init__()
        if channels % 2:
            raise InputError(f"a network per mask needs the encoding null-channels, got {channels} channels")
        self.channels, self.classes, self.networks = channels // 2, classes, networks
        size = int(masks.sum(axis=1).max())
        places = np.full((len(masks), size), masks.shape[1])  # of each mask's units; the last is none's
        for row, mask in zip(places, masks, strict=True):
            row[: mask.sum()] = np.flatnonzero(mask)
        numbers, sums = _numbers(masks)
        order = np.argsort(sums)
        for name, value in (("places", places), ("order", order)):
            self.register_buffer(name, torch.from_numpy(value), persistent=False)
        for name, value in (("numbers", numbers), ("sums", sums[order])):
            self.register_buffer(name, torch.from_numpy(value).float(), persistent=False)
        sizes = [self.channels * size, *[width] * depth, classes]
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for before, after in pairwise(sizes):
            spread = math.sqrt(2 / before) / (1 + (after == classes))
            self.weights.append(nn.Parameter(spread * torch.randn(networks * len(masks), before, after)))
            self.biases.append(nn.Parameter(torch.zeros(networks * len(masks), 1, after)))

    def forward(self, copies: torch.Tensor) -> torch.Tensor:
        """Scores of copies, each by the networks of its mask: [rows, classes]."""
        retained, values = self._values(copies)
        masks = self.order[torch.searchsorted(self.sums, (retained * self.numbers).sum(dim=1)) % len(self.order)]
        order, counts = masks.argsort(stable=True), torch.bincount(masks, minlength=len(self.places))
        at = masks[order], torch.arange(len(order), device=order.device) - (counts.cumsum(0) - counts)[masks[order]]
        places = self.places[masks[order], None].expand(-1, self.channels, -1)
        rows = values[order].gather(2, places).flatten(1)
        batch = rows.new_zeros(len(self.places), int(counts.max()), rows.shape[1])
        batch[at] = rows
        scores = self._scores(batch)
        return torch.empty_like(scores[at]).index_copy_(0, order, scores[at])

    def score_all(self, whole: torch.Tensor) -> torch.Tensor:
        """Scores of every mask's copy of inputs of which nothing is NULL: [masks * inputs, classes], mask by mask."""
        _, values = self._values(whole)
        rows = values[:, :, self.places].permute(2, 0, 1, 3).flatten(2)
        return self._scores(rows).flatten(0, 1)

    def _values(self, copies: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """bool[rows, units]: what is retained; and the values [rows, channels, units + 1], the last being 0."""
        flat = copies.flatten(2)
        return (flat != 0).any(dim=1), nn.functional.pad(flat[:, : self.channels], (0, 1))

    def _scores(self, rows: torch.Tensor) -> torch.Tensor:
        """[masks, n, values] -> [masks, n, classes]."""
        rows = rows.repeat(self.networks, 1, 1) if self.networks > 1 else rows
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            rows = torch.baddbmm(bias, torch.relu(rows) if layer else rows, weight)
        return rows.view(self.networks, -1, *rows.shape[1:]).mean(dim=0)


def _numbers(masks: Bool) -> tuple[Int64, Int64]:
    """int64[units]: a number for each unit; and int64[masks]: their sums, all different and below 2**24."""
    most = (EXACT - 1) // max(1, int(masks.sum(axis=1).max()))
    for seed in range(100):
        numbers: Int64 = np.random.default_rng(seed).integers(1, most, size=(masks.shape[1],), endpoint=True)
        sums: Int64 = (masks * numbers).sum(axis=1)
        if len(np.unique(sums)) == len(masks):
            return numbers, sums
    raise InputError("the masks cannot be told apart: two of them are the same")


@MODELS.register("per-mask")
def per_mask(channels: int, classes: int, scheme: Scheme) -> nn.Module:
    """A perceptron with two hidden layers of 128 units for each mask of a fixed set."""
    return PerMask(channels, classes, _masks(scheme))


@MODELS.register("per-mask-ensemble")
def per_mask_ensemble(channels: int, classes: int, scheme: Scheme) -> nn.Module:
    """Four perceptrons for each mask, averaged into one vote."""
    return PerMask(channels, classes, _masks(scheme), networks=4)


def _masks(scheme: Scheme) -> Bool:
    if not isinstance(scheme, FixedMasks):
        raise InputError(f"a network per mask needs a fixed set of masks, got the scheme {scheme}")
    return scheme.table
