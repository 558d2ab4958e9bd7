"""What a training step minimises: the loss of a batch of ablated copies, compiled where that is faster."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from sparsecert.ablation import PRECISIONS

Objective = Callable[[nn.Module, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


def objective(device: torch.device, precision: str, compiled: bool = True) -> Objective:
    """(model, copies, labels) -> the sum of the copies' losses, and how many are classified right.

    In bf16 on a GPU the network is compiled: its matrix products then run so fast that everything between them would
    take most of the time. (Not where batch norm talks to other processes, which cannot be compiled as a whole.)
    """
    if precision != "bf16" or device.type != "cuda" or torch.cuda.get_device_capability(device) < (8, 0):
        compiled = False
    return _compiled(precision) if compiled else _plain(precision)


@cache
def _compiled(precision: str) -> Objective:
    """One for all runs, so that a network of the same form is compiled once."""
    return Compiled(_plain(precision))


@cache
def _plain(precision: str) -> Objective:
    dtype = PRECISIONS[precision]

    def losses(model: nn.Module, copies: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.autocast(copies.device.type, dtype=dtype, enabled=dtype is not None):
            scores = model(copies).float()
        return cross_entropy(scores, labels, reduction="sum"), (scores.detach().argmax(1) == labels).sum()

    return losses


class Compiled:
    """An objective compiled for each shape that it meets; as it is, with a warning, where compiling fails.

    It fails on machines that lack a C compiler, for one; training is then slower, not impossible.
    """

    def __init__(self, plain: Objective) -> None:
        self.plain, self.quick = plain, torch.compile(plain, dynamic=False)
        self.works = True

    def __call__(
        self, model: nn.Module, copies: torch.Tensor, labels: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The loss, and how many are right."""
        if self.works:
            try:
                return self.quick(model, copies, labels)
            except torch.OutOfMemoryError:
                raise
            except Exception as error:
                reason = (str(error).splitlines() or [""])[0]
                warnings.warn(f"the network cannot be compiled here ({reason}); training goes on slower", stacklevel=2)
                self.works = False
        return self.plain(model, copies, labels)
