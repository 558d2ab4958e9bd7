"""A model together with the ablated copies it classifies."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from sparsecert.encodings import Encoding
from sparsecert.schemes import Scheme

Model = Callable[[torch.Tensor], torch.Tensor]

PRECISIONS = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


def dtype_of(model: object) -> torch.dtype | None:
    """The one type of all the model's numbers; None where they differ or there are none."""
    if not isinstance(model, torch.nn.Module):
        return None
    types = {tensor.dtype for tensor in (*model.parameters(), *model.buffers()) if tensor.is_floating_point()}
    return types.pop() if len(types) == 1 else None


@dataclass(frozen=True)
class Ablation:
    """A model together with the ablated copies it classifies: everything the votes depend on but inputs and chance.

    `precision` "bf16" or "fp16" runs the model under autocast; a certificate is then one of the model so computed.
    """

    model: Model
    scheme: Scheme
    encoding: Encoding
    device: torch.device
    precision: str = "fp32"

    def __post_init__(self) -> None:
        self.encoding.check_scheme(self.scheme)

    def copies(self, inputs: torch.Tensor, seed: int, examples: torch.Tensor, draws: torch.Tensor) -> torch.Tensor:
        """One encoded ablated copy per row."""
        return self.encoding(inputs, self.scheme.masks_at(seed, examples, draws))

    def scores(self, copies: torch.Tensor) -> torch.Tensor:
        """The model's scores: Float[rows, classes]."""
        with self._autocast():
            return self.model(copies)

    def scores_of(
        self, inputs: torch.Tensor, which: torch.Tensor, seed: int, examples: torch.Tensor, draws: torch.Tensor
    ) -> torch.Tensor:
        """The scores of one copy of inputs[which] per row."""
        return self.scores_by(inputs, which, self.scheme.masks_at(seed, examples, draws))

    def scores_by(self, inputs: torch.Tensor, which: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
        """The same for masks that are at hand, a row of them for each copy."""
        return self.scores(self.encoding(inputs[which], masks))

    def _autocast(self) -> AbstractContextManager[Any]:
        dtype = PRECISIONS[self.precision]
        return nullcontext() if dtype is None else torch.autocast(self.device.type, dtype=dtype)
