"""NULL is a fill value beside an indicator: for models that take no NaN."""

from __future__ import annotations

from typing import Any

import torch

from sparsecert.encodings.encoding import Encoding, per_channel


class Indicator(Encoding):
    """What is ablated is the fill value of its place, and a second channel says 1 there, 0 elsewhere.

    A value that is missing in the input (NaN) looks like NULL. `fill` has one number for each place, such as the mean
    of each column of a table in training.
    """

    takes_missing = True

    def __init__(self, fill: Any) -> None:
        self.fill = per_channel("fill", fill)

    def encode(self, inputs: torch.Tensor, retained: torch.Tensor) -> torch.Tensor:
        absent = ~retained | inputs.isnan()
        fill = torch.tensor(self.fill, dtype=inputs.dtype, device=inputs.device).view(inputs.shape[2:])
        return torch.cat((torch.where(absent, fill, inputs), absent.to(inputs.dtype)), dim=1)

    def channels(self, channels: int) -> int:
        return 2 * channels

    def config(self) -> dict[str, Any]:
        return {"kind": "indicator", "fill": list(self.fill)}

    def __repr__(self) -> str:
        return f"Indicator({len(self.fill)} places)"
