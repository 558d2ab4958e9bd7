"""Fused scoring of ablated copies, where model, encoding and device allow it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from sparsecert import devices
from sparsecert.encodings import Encoding
from sparsecert.models.grid import GridNetwork
from sparsecert.votes.engine import encode, grid, on_cpu, on_cuda
from sparsecert.votes.engine.fused import fuse
from sparsecert.votes.engine.layout import layout_of

Scorer = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]  # (inputs, which, masks) -> scores

TRIED = 16  # copies on which the fused network is compared with the model
ROUNDING = {torch.float32: 1e-3}  # of the largest score: far above rounding, far below a wrong function's error
ROUNDING_OF_HALF = 0.1
DISAGREES = "the fused form of the model does not give the model's scores on this device; the model itself is used"


@dataclass(frozen=True)
class FusedScorer:
    """Writes copies in the layout that the fused network reads, and runs that network.

    In exact arithmetic the scores are the model's; as computed they differ by rounding, and the certificate is for the
    classifier as computed. (That includes overflow: a GPU library's ReLU may turn a NaN into a number where the plain
    model's scores would not be finite.)
    """

    copies: Scorer
    network: Callable[[torch.Tensor], torch.Tensor]

    def __call__(self, inputs: torch.Tensor, which: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
        """[rows, classes]: the scores of inputs[which[r]] ablated by masks[r], for each row r."""
        return self.network(self.copies(inputs, which, masks))


def fast_scorer(
    model: object,
    encoding: Encoding,
    dtype: torch.dtype | None,
    first: torch.Tensor,
    masks: torch.Tensor,
    plain: Scorer,
) -> FusedScorer | None:
    """The fused form of the model, computed in `dtype` on the device of `first`; None where there is none.

    Checks it against `plain` on copies of `first`, a batch of one input, and of noise, ablated by `masks`. If its
    scores differ or it fails, warns and returns None.
    """
    try:
        scorer = fused_scorer(model, encoding, dtype, first.shape[1:], first.device)
        if scorer is None or agrees(scorer, plain, first, masks):
            return scorer
    except Exception:  # a library or compiler that lacks something; the model itself still runs
        pass
    warnings.warn(DISAGREES, stacklevel=4)
    return None


def fused_scorer(
    model: object, encoding: Encoding, dtype: torch.dtype | None, shape: Sequence[int], device: torch.device
) -> FusedScorer | None:
    """The fused form for inputs of `shape`; None where device, dtype, model or encoding have none."""
    if isinstance(model, GridNetwork) and dtype is not None and encode.is_unitwise(encoding, shape[0]):
        return FusedScorer(partial(grid.planes, model, encoding), grid.network_of(model, dtype))
    if dtype is None or dtype not in devices.support(device).fused:
        return None
    fuse_here = fuse_on_cpu if device.type == "cpu" else fuse_on_cuda
    return fuse_here(model, encoding, dtype, shape, device)


def fuse_on_cuda(
    model: object, encoding: Encoding, dtype: torch.dtype, shape: Sequence[int], device: torch.device
) -> FusedScorer | None:
    """Copies written by one kernel, in the layout of the network with space-to-depth stem and padded channels."""
    network = fuse(model, shape, dtype)
    if network is None:
        return None
    layout = layout_of(encoding, shape, network.block, network.padding, network.channels)
    if layout is None:
        return None
    table = layout.to(device)
    prepare = on_cuda.step if device.type == "cuda" else (lambda part: part)
    return FusedScorer(
        lambda inputs, which, masks: table.copies(inputs, which, masks, dtype), network.bound_to(prepare)
    )


def fuse_on_cpu(
    model: object, encoding: Encoding, dtype: torch.dtype, shape: Sequence[int], device: torch.device
) -> FusedScorer | None:
    """Channels-last copies, selected unit by unit between the encoded input and encoded NULL."""
    network = fuse(model, shape, dtype, tensor_cores=False)
    if network is None or not encode.is_unitwise(encoding, shape[0]) or network.channels != encoding.channels(shape[0]):
        return None
    return FusedScorer(
        lambda inputs, which, masks: encode.copies(encoding, inputs, which, masks, dtype),
        network.bound_to(on_cpu.step),
    )


def agrees(scorer: Scorer, plain: Scorer, first: torch.Tensor, masks: torch.Tensor) -> bool:
    """Whether both give the same finite scores, up to rounding, for copies of `first` and of noise."""
    noise = torch.rand(first.shape, generator=torch.Generator().manual_seed(0)).to(first)
    which = 2 * torch.arange(len(masks), device=first.device) // len(masks)
    arguments = torch.cat((first, noise)), which, masks
    expected, others = plain(*arguments).float(), scorer(*arguments)
    rounding = ROUNDING.get(others.dtype, ROUNDING_OF_HALF)
    finite = torch.isfinite(expected).all(dim=1)
    if not torch.equal(finite, torch.isfinite(others).all(dim=1)):
        return False
    one, other = expected[finite], others[finite].float()
    return not len(one) or bool(((one - other).abs() <= rounding * one.abs().max()).all())
