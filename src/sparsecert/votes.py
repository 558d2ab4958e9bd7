"""Inputs x masks -> class counts: the one hot loop, for any model, scheme and encoding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from sparsecert.counts import Counts
from sparsecert.encodings import Encoding
from sparsecert.errors import InputError
from sparsecert.memory import chunk_rows, counting_outputs
from sparsecert.schemes import Scheme

Model = Callable[[torch.Tensor], torch.Tensor]
Progress = Callable[[int], None]

PRECISIONS = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
PROBE_ROWS = 2


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

    def logits(self, inputs: torch.Tensor, seed: int, examples: torch.Tensor, draws: torch.Tensor) -> torch.Tensor:
        """The model's scores for one ablated copy per row: Float[rows, classes]."""
        copies = self.encoding(inputs, self.scheme.masks_at(seed, examples, draws))
        with self._autocast():
            scores = self.model(copies)
        if (
            not isinstance(scores, torch.Tensor)
            or scores.ndim != 2
            or len(scores) != len(copies)
            or scores.shape[1] < 2
        ):
            found = tuple(scores.shape) if isinstance(scores, torch.Tensor) else type(scores).__name__
            raise InputError(f"model must return scores of shape ({len(copies)}, classes), classes >= 2, got {found}")
        return scores

    def _autocast(self) -> AbstractContextManager[Any]:
        dtype = PRECISIONS[self.precision]
        return nullcontext() if dtype is None else torch.autocast(self.device.type, dtype=dtype)


def count_votes(
    ablation: Ablation,
    inputs: torch.Tensor,
    examples: Sequence[int],
    draws: range,
    seed: int,
    rows: int | None = None,
    progress: Progress | None = None,
) -> Counts:
    """How the model classifies the copies of each input ablated by the masks of `draws`: int64 counts per input.

    inputs: Float[b, ...]; examples: the b numbers that, with seed and draw, decide each input's masks. The b * draws
    copies are taken `rows` at a time (from the free memory when None), several inputs in one batch where they fit; peak
    memory depends on `rows` and on the inputs, not on the number of draws. A copy whose scores are not all finite votes
    for nobody and is counted as invalid. `progress(copies)` is called after each batch with how many it held.
    """
    numbers = torch.tensor(list(examples), dtype=torch.int64, device=ablation.device)
    inputs = inputs.to(ablation.device)
    with in_eval_mode(ablation.model), torch.no_grad():
        classes, fitting = probe(ablation, inputs, numbers, seed)
        size = rows or fitting
        counts = torch.zeros(len(inputs) * (classes + 1), dtype=torch.int64, device=ablation.device)
        position, copies = 0, len(inputs) * len(draws)
        while position < copies:
            taken = torch.arange(position, min(position + size, copies), device=ablation.device)
            which, draw = taken // len(draws), taken % len(draws) + draws.start
            try:
                scores = ablation.logits(inputs[which], seed, numbers[which], draw)
            except torch.cuda.OutOfMemoryError:
                size = _smaller(size)
                continue
            voted = torch.where(torch.isfinite(scores).all(dim=1), scores.argmax(dim=1), classes)
            counts.scatter_add_(0, which * (classes + 1) + voted, torch.ones_like(voted))
            position += len(taken)
            if progress is not None:
                progress(len(taken))
    table = counts.view(len(inputs), classes + 1).cpu().numpy()
    return Counts(table[:, :classes].copy(), table[:, classes].copy())


def probe(ablation: Ablation, inputs: torch.Tensor, examples: torch.Tensor, seed: int) -> tuple[int, int]:
    """The number of classes, and how many rows fit at once, from a forward pass of PROBE_ROWS copies."""
    which = torch.zeros(PROBE_ROWS, dtype=torch.int64, device=ablation.device)
    with counting_outputs(ablation.model) as seen:
        scores = ablation.logits(inputs[which], seed, examples[which], which)
        activations = seen()
    encoded = inputs[0].numel() * inputs.element_size() * 8  # input, mask and encoded copy, with temporaries
    return scores.shape[1], chunk_rows(activations // PROBE_ROWS + encoded, ablation.device)


def _smaller(rows: int) -> int:
    """Half as many rows, after the device ran out of memory."""
    if rows == 1:
        raise InputError("the device has too little memory for one ablated copy; use the CPU or a smaller model")
    torch.cuda.empty_cache()
    return rows // 2


@contextmanager
def in_eval_mode(model: Any) -> Iterator[None]:
    """Puts every submodule into eval mode and gives each back as it was, whatever happens inside."""
    if not isinstance(model, torch.nn.Module):
        yield
        return
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
