"""What a training step minimises: the loss of a batch of ablated copies, compiled where that is faster."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import cache

import torch
from torch import nn
from torch.nn.functional import log_softmax

from sparsecert import devices
from sparsecert.votes.precision import PRECISIONS

Objective = Callable[[nn.Module, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


def objective(
    device: torch.device, precision: str, copies: int = 1, consistency: float = 0.0, compiled: bool = True
) -> Objective:
    """(model, ablated copies, labels) -> the sum of the inputs' losses, and how many are classified right.

    Row c * inputs + i is copy c of input i, whose loss is the mean cross-entropy of its copies and `consistency` times
    the mean divergence of their shares p_c from the shares' mean p: sum of p * log(p / p_c) over the classes. That is
    the loss of Jeong & Shin, "Consistency Regularization for Certified Robustness of Smoothed Classifiers" (NeurIPS
    2020) without its entropy term: what is certified depends on how alike the votes of an input are.

    In bf16 on a GPU the network is compiled: its matrix products then run so fast that everything between them would
    take most of the time. (Not where batch norm talks to other processes, which cannot be compiled as a whole.)
    """
    if precision != "bf16" or device.type != "cuda" or torch.bfloat16 not in devices.support(device).hardware:
        compiled = False
    make = _compiled if compiled else _plain
    return make(precision, copies, consistency)


@cache
def _compiled(precision: str, copies: int, consistency: float) -> Objective:
    """One for all runs, so that a network of the same form is compiled once."""
    return Compiled(_plain(precision, copies, consistency))


@cache
def _plain(precision: str, copies: int, consistency: float) -> Objective:
    dtype = PRECISIONS[precision]

    def losses(model: nn.Module, rows: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.autocast(rows.device.type, dtype=dtype, enabled=dtype is not None):
            scores = model(rows)
        logs = log_softmax(scores.float(), dim=1).view(copies, len(labels), -1)
        right = (logs.detach().argmax(2) == labels).sum() / copies
        loss = -logs.mean(0).gather(1, labels[:, None]).sum()
        return (loss + consistency * divergence(logs) if consistency else loss), right

    return losses


def divergence(logs: torch.Tensor) -> torch.Tensor:
    """The mean divergence of each copy's shares, given by their logarithms [copies, inputs, classes], from their mean.

    Summed over the inputs.
    """
    mean = logs.logsumexp(0) - math.log(len(logs))
    return (mean.exp() * (mean - logs.mean(0))).sum()


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
