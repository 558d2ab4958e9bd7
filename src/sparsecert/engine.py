"""The fastest way to the scores of ablated copies that is there: plain, or folded and fused on a CUDA device."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from sparsecert.encodings.layout import Layout, layout_of
from sparsecert.models.folded import Folded, folded
from sparsecert.votes import PRECISIONS, Ablation

Scorer = Callable[[torch.Tensor, torch.Tensor, int, torch.Tensor, torch.Tensor], torch.Tensor]


def native_precision(device: torch.device) -> str:
    """The fastest precision of forward passes: bf16 where the device multiplies it in hardware, otherwise fp32."""
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"
    known = getattr(torch.cpu, "_is_avx512_bf16_supported", None) if device.type == "cpu" else None
    return "bf16" if known is not None and known() else "fp32"


def scorer(ablation: Ablation, shape: Sequence[int]) -> Scorer:
    """(inputs, which, seed, examples, draws) -> scores, a row for each copy of inputs[which]."""
    dtype = PRECISIONS[ablation.precision]
    if dtype is None or not _has_tensor_cores_for(dtype, ablation.device):
        return ablation.scores_of
    return fused(ablation, shape, dtype) or ablation.scores_of


def _has_tensor_cores_for(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether cuDNN runs convolutions of this type in hardware here."""
    if device.type != "cuda" or torch.version.cuda is None or not torch.backends.cudnn.enabled:
        return False
    return dtype == torch.float16 or native_precision(device) == "bf16"


def fused(ablation: Ablation, shape: Sequence[int], dtype: torch.dtype) -> Fused | None:
    """The fused form for inputs of `shape`, on the ablation's device; None where model or encoding have none."""
    network = folded(ablation.model, shape, dtype)
    if network is None:
        return None
    layout = layout_of(ablation.encoding, shape, network.block, network.padding, network.channels)
    return Fused(ablation, network, layout.to(ablation.device), dtype) if layout is not None else None


class Fused:
    """Copies written by one kernel in the layout that the folded network reads. The function is that of the model.

    In exact arithmetic the scores are the model's; in half precision they differ from autocast's by rounding alone,
    and the certificate is of the classifier so computed.
    """

    def __init__(self, ablation: Ablation, network: Folded, layout: Layout, dtype: torch.dtype) -> None:
        self.ablation, self.network, self.layout, self.dtype = ablation, network, layout, dtype

    def __call__(
        self, inputs: torch.Tensor, which: torch.Tensor, seed: int, examples: torch.Tensor, draws: torch.Tensor
    ) -> torch.Tensor:
        """The scores: [rows, classes]."""
        masks = self.ablation.scheme.masks_at(seed, examples, draws)
        return self.network(self.layout.copies(inputs, which, masks, self.dtype))
