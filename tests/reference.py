"""Masks, encoding and model one after the other: what votes and fused networks are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from sparsecert.counts import Counts
from sparsecert.encodings import Encoding
from sparsecert.schemes import Scheme
from sparsecert.votes.copies import Copies
from sparsecert.votes.engine import TRIED, FusedScorer, fast_scorer, fuse_on_cuda
from sparsecert.votes.precision import PRECISIONS, autocast, dtype_of
from sparsecert.votes.voter import Voter

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Reference:
    model: Any
    scheme: Scheme
    encoding: Encoding
    device: torch.device = CPU
    precision: str = "fp32"

    def scores(self, inputs: torch.Tensor, which: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
        with autocast(self.device, self.precision):
            return self.model(self.encoding(inputs[which], masks))

    def masks(self, seed: int, examples: torch.Tensor, draws: torch.Tensor) -> torch.Tensor:
        return self.scheme.masks_at(seed, examples, draws)

    def scores_of(
        self, inputs: torch.Tensor, which: torch.Tensor, seed: int, examples: torch.Tensor, draws: torch.Tensor
    ) -> torch.Tensor:
        return self.scores(inputs, which, self.masks(seed, examples, draws))

    def fused(self, first: torch.Tensor) -> FusedScorer | None:
        draws = torch.arange(TRIED, device=self.device)
        masks = self.masks(0, 2 * draws // TRIED, draws)
        dtype = PRECISIONS[self.precision] or dtype_of(self.model)
        return fast_scorer(self.model, self.encoding, dtype, first, masks, self.scores)

    def fused_as_on_cuda(self, shape: Sequence[int], dtype: torch.dtype) -> FusedScorer | None:
        return fuse_on_cuda(self.model, self.encoding, dtype, shape, self.device)

    def voter(self, first: torch.Tensor, rows: int | None = None, classes: int | None = None) -> Voter:
        return Voter(
            self.model, self.scheme, self.encoding, first,
            device=self.device, precision=self.precision, rows=rows, classes=classes,
        )  # fmt: skip

    def count(
        self,
        inputs: torch.Tensor,
        examples: Sequence[int],
        draws: range,
        seed: int,
        rows: int | None = None,
        classes: int | None = None,
        **listening: Any,
    ) -> Counts:
        voter = self.voter(inputs[:1], rows, classes)
        return voter.begin_count(Copies(voter, inputs, examples, seed, **listening), draws)()
