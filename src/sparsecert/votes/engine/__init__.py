"""The fastest way to the scores of ablated copies that is there: plain, or folded and fused for the device."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import torch

from sparsecert import devices
from sparsecert.votes.ablation import PRECISIONS, Ablation, dtype_of
from sparsecert.votes.engine import encode as shown
from sparsecert.votes.engine import on_cpu, on_cuda
from sparsecert.votes.engine.fused import folded
from sparsecert.votes.engine.layout import layout_of

Scorer = Callable[[torch.Tensor, torch.Tensor, int, torch.Tensor, torch.Tensor], torch.Tensor]
Copies = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
Network = Callable[[torch.Tensor], torch.Tensor]

TRIED = 16  # copies on which the fused form is compared with the model
ROUNDING = {torch.float32: 1e-3}  # of the largest score: far more than is lost, far less than another function shows
ROUNDING_OF_HALF = 0.1
DISAGREES = "the fused form of the model does not give the model's scores on this device; the model itself is used"


def scorer(ablation: Ablation, first: torch.Tensor) -> Scorer:
    """(inputs, which, seed, examples, draws) -> scores, a row for each copy of inputs[which].

    `first`, a single input, is what the fused form is tried on before it is trusted.
    """
    try:
        quick = fused(ablation, first.shape[1:])
        if quick is None:
            return ablation.scores_of
        if agrees(quick, ablation, first):
            return quick
    except Exception:  # a library or compiler that lacks something; the model itself still runs
        pass
    warnings.warn(DISAGREES, stacklevel=3)
    return ablation.scores_of


def fused(ablation: Ablation, shape: Sequence[int]) -> Fused | None:
    """The fused form for inputs of `shape`; None where device, precision, model or encoding have none."""
    dtype = PRECISIONS[ablation.precision] or dtype_of(ablation.model)
    if dtype is None or dtype not in devices.support(ablation.device).fused:
        return None
    fuse = fused_on_cpu if ablation.device.type == "cpu" else fused_on_cuda
    return fuse(ablation, shape, dtype)


def fused_on_cuda(ablation: Ablation, shape: Sequence[int], dtype: torch.dtype) -> Fused | None:
    """Copies written by one kernel in the layout that the network, cut into blocks and filled up, reads."""
    network = folded(ablation.model, shape, dtype)
    if network is None:
        return None
    layout = layout_of(ablation.encoding, shape, network.block, network.padding, network.channels)
    if layout is None:
        return None
    table = layout.to(ablation.device)
    prepare = on_cuda.step if ablation.device.type == "cuda" else (lambda part: part)
    return Fused(
        ablation, lambda inputs, which, masks: table.copies(inputs, which, masks, dtype), network.prepared(prepare)
    )


def fused_on_cpu(ablation: Ablation, shape: Sequence[int], dtype: torch.dtype) -> Fused | None:
    """Copies with channels innermost, chosen between the input as it is shown and as NULL."""
    network = folded(ablation.model, shape, dtype, filled=False)
    encoding = ablation.encoding
    if network is None or not shown.chooses(encoding, shape[0]) or network.channels != encoding.channels(shape[0]):
        return None
    return Fused(
        ablation,
        lambda inputs, which, masks: shown.copies(encoding, inputs, which, masks, dtype),
        network.prepared(on_cpu.step),
    )


def agrees(quick: Scorer, ablation: Ablation, first: torch.Tensor) -> bool:
    """Whether the two forms give the same finite scores, but for rounding, to copies of `first` and of noise."""
    noise = torch.rand(first.shape, generator=torch.Generator().manual_seed(0)).to(first)
    draws = torch.arange(TRIED, device=ablation.device)
    which = 2 * draws // TRIED
    arguments = (torch.cat((first, noise)), which, 0, which, draws)
    plain, others = ablation.scores_of(*arguments).float(), quick(*arguments)
    rounding = ROUNDING.get(others.dtype, ROUNDING_OF_HALF)
    finite = torch.isfinite(plain).all(dim=1)
    if not torch.equal(finite, torch.isfinite(others).all(dim=1)):
        return False
    one, other = plain[finite], others[finite].float()
    return not len(one) or bool(((one - other).abs() <= rounding * one.abs().max()).all())


class Fused:
    """Masks, copies and the folded network, one after the other. The function is that of the model.

    In exact arithmetic the scores are the model's; as computed they differ from the plain model's by rounding, and the
    certificate is of the classifier so computed. (That holds for overflow too: a NaN within the network may become a
    number in the ReLU of a GPU library, where the plain model's scores would not be finite.)
    """

    def __init__(self, ablation: Ablation, copies: Copies, network: Network) -> None:
        self.ablation, self.copies, self.network = ablation, copies, network

    def __call__(
        self, inputs: torch.Tensor, which: torch.Tensor, seed: int, examples: torch.Tensor, draws: torch.Tensor
    ) -> torch.Tensor:
        """The scores: [rows, classes]."""
        return self.scores_by(inputs, which, self.ablation.scheme.masks_at(seed, examples, draws))

    def scores_by(self, inputs: torch.Tensor, which: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
        """The same for masks that are at hand, a row of them for each copy."""
        return self.network(self.copies(inputs, which, masks))
