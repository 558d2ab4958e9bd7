"""The simpler encoding of the paper's Table 8: NULL is the training set's mean value."""

from __future__ import annotations

from typing import Any

import torch

from sparsecert.encodings.encoding import Encoding, beside, one_each, per_channel


class MeanFill(Encoding):
    """Retained units as they are, NULL = `mean`, one number per channel: the training set's mean pixel.

    Sound like any encoding (the mean is a constant, not a statistic of the input), but a retained unit whose value
    happens to be the mean cannot be told from NULL.
    """

    def __init__(self, mean: Any) -> None:
        self.mean = per_channel("mean", mean)

    def encode(self, inputs: torch.Tensor, retained: torch.Tensor) -> torch.Tensor:
        """Float[rows, channels, *places]."""
        return torch.where(retained, inputs, beside(self.mean, "mean", inputs))

    def affine(self, channels: int) -> list[tuple[int, float, float, float]]:
        """The channels as they are; NULL is the mean."""
        return [(c, 1.0, 0.0, null) for c, null in enumerate(one_each(self.mean, channels))]

    def channels(self, channels: int) -> int:
        """As many."""
        return channels

    def config(self) -> dict[str, Any]:
        """JSON values that `encodings.from_config` turns back into this encoding."""
        return {"kind": "mean-fill", "mean": list(self.mean)}

    def __repr__(self) -> str:
        return f"MeanFill(mean={self.mean})"
