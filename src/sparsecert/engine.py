"""The fastest way to the scores of ablated copies that is there: plain, or folded and fused on a CUDA device."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import torch

from sparsecert.ablation import PRECISIONS, Ablation
from sparsecert.encodings.layout import Layout, layout_of
from sparsecert.models.folded import Folded, folded

Scorer = Callable[[torch.Tensor, torch.Tensor, int, torch.Tensor, torch.Tensor], torch.Tensor]

NEEDED = {torch.bfloat16: (8, 0), torch.float16: (7, 0)}  # compute capability of the first tensor cores for the type
TRIED = 16  # copies on which the fused form is held against the model
ROUNDING = 0.1  # of the largest score: far more than half precision loses, far less than another function would show
DISAGREES = "the fused form of the model does not give the model's scores on this device; the model itself is used"


def native_precision(device: torch.device) -> str:
    """The fastest precision of forward passes: bf16 where the device multiplies it in hardware, otherwise fp32."""
    if device.type == "cuda":
        return "bf16" if _has_tensor_cores_for(torch.bfloat16, device) else "fp32"
    known = getattr(torch.cpu, "_is_avx512_bf16_supported", None) if device.type == "cpu" else None
    return "bf16" if known is not None and known() else "fp32"


def scorer(ablation: Ablation, first: torch.Tensor) -> Scorer:
    """(inputs, which, seed, examples, draws) -> scores, a row for each copy of inputs[which].

    `first`, a single input, is what the fused form is tried on before it is trusted.
    """
    dtype = PRECISIONS[ablation.precision]
    if dtype is None or not _has_tensor_cores_for(dtype, ablation.device):
        return ablation.scores_of
    quick = fused(ablation, first.shape[1:], dtype)
    if quick is None:
        return ablation.scores_of
    if not agrees(quick, ablation, first):
        warnings.warn(DISAGREES, stacklevel=3)
        return ablation.scores_of
    return quick


def _has_tensor_cores_for(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether convolutions of this type run in hardware there, through cuDNN."""
    if device.type != "cuda" or torch.version.cuda is None or not torch.backends.cudnn.enabled:
        return False
    return torch.cuda.get_device_capability(device) >= NEEDED[dtype]


def fused(ablation: Ablation, shape: Sequence[int], dtype: torch.dtype) -> Fused | None:
    """The fused form for inputs of `shape`, on the ablation's device; None where model or encoding have none."""
    network = folded(ablation.model, shape, dtype)
    if network is None:
        return None
    layout = layout_of(ablation.encoding, shape, network.block, network.padding, network.channels)
    return Fused(ablation, network, layout.to(ablation.device), dtype) if layout is not None else None


def agrees(quick: Scorer, ablation: Ablation, first: torch.Tensor) -> bool:
    """Whether the two forms give the same finite scores, but for rounding, to some copies of `first`."""
    draws = torch.arange(TRIED, device=ablation.device)
    arguments = (first, torch.zeros_like(draws), 0, torch.zeros_like(draws), draws)
    plain = ablation.scores_of(*arguments).float()
    try:
        others = quick(*arguments).float()
    except RuntimeError:  # a library that lacks the fused operations
        return False
    close = (plain - others).abs() <= ROUNDING * plain.abs().max()
    return bool((close | ~torch.isfinite(plain)).all())


class Fused:
    """Copies written by one kernel in the layout that the folded network reads. The function is that of the model.

    In exact arithmetic the scores are the model's; in half precision they differ from autocast's by rounding, and the
    certificate is of the classifier so computed.
    """

    def __init__(self, ablation: Ablation, network: Folded, layout: Layout, dtype: torch.dtype) -> None:
        self.ablation, self.network, self.layout, self.dtype = ablation, network, layout, dtype

    def __call__(
        self, inputs: torch.Tensor, which: torch.Tensor, seed: int, examples: torch.Tensor, draws: torch.Tensor
    ) -> torch.Tensor:
        """The scores: [rows, classes]."""
        masks = self.ablation.scheme.masks_at(seed, examples, draws)
        return self.network(self.layout.copies(inputs, which, masks, self.dtype))
