"""The training objective: the loss of a batch of ablated copies, compiled where that is faster."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import cache

import torch
from torch.nn.functional import log_softmax

from sparsecert import devices
from sparsecert.training.recipe import VoteObjective
from sparsecert.votes.precision import PRECISIONS

Scorer = Callable[[torch.Tensor], torch.Tensor]  # a network, from ablated copies to scores
Objective = Callable[[Scorer, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]

SOFTNESS, WORST, STEEPNESS = 0.5, 20.0, 6.0  # of a vote, of the worst rival, of the count of inputs (`vote_loss`)


def objective(
    device: torch.device,
    precision: str,
    copies: int = 1,
    consistency: float = 0.0,
    compiled: bool = True,
    vote: VoteObjective | None = None,
) -> Objective:
    """(model, ablated copies, labels) -> the sum of the inputs' losses, and the number classified correctly.

    Row c * inputs + i is copy c of input i. An input's loss is the mean cross-entropy of its copies plus `consistency`
    times the mean KL divergence of the copies' softmax outputs p_c from their mean p: sum of p * log(p / p_c) over the
    classes. This is the loss of Jeong & Shin, "Consistency Regularization for Certified Robustness of Smoothed
    Classifiers" (NeurIPS 2020), without its entropy term: certificates need the copies of an input to agree. With
    `vote` it is `vote_loss`, plus so much cross-entropy as that says.

    In bf16 on a GPU the network is compiled, since matrix products are then so fast that the rest would dominate.
    (Not with batch norm synchronised over processes, which does not compile as a whole.)
    """
    if precision != "bf16" or device.type != "cuda" or torch.bfloat16 not in devices.support(device).hardware:
        compiled = False
    make = _compiled if compiled else _eager
    return make(precision, copies, consistency, vote)


@cache
def _compiled(precision: str, copies: int, consistency: float, vote: VoteObjective | None) -> Objective:
    """Shared by all runs, so that each architecture is compiled once."""
    return CompiledObjective(_eager(precision, copies, consistency, vote))


@cache
def _eager(precision: str, copies: int, consistency: float, vote: VoteObjective | None) -> Objective:
    dtype = PRECISIONS[precision]

    def losses(model: Scorer, rows: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.autocast(rows.device.type, dtype=dtype, enabled=dtype is not None):
            scores = model(rows)
        scores = scores.float().view(copies, len(labels), -1)
        correct = (scores.detach().argmax(2) == labels).sum() / copies
        if vote is not None and not vote.cross_entropy:
            return vote_loss(scores, labels, vote.target), correct
        logs = log_softmax(scores, dim=2)
        loss = -logs.mean(0).gather(1, labels[:, None]).sum()
        if vote is not None:
            return vote_loss(scores, labels, vote.target) + vote.cross_entropy * loss, correct
        return (loss + consistency * divergence(logs) if consistency else loss), correct

    return losses


def vote_loss(scores: torch.Tensor, labels: torch.Tensor, target: float) -> torch.Tensor:
    """About how many inputs have a lead below `target` over some rival, in a vote of their copies.

    scores: [copies, inputs, classes]. The lead over class j is the mean over the copies of tanh((z_y - z_j) / 2 / 0.5),
    a soft sign: 1 for a copy that ranks the label above j, -1 for one that ranks it below. The smallest of them is
    taken softly, too, and a sigmoid counts the inputs where it is below the target: it lets go of hopeless ones and
    does not reward a lead beyond what is asked for, as cross-entropy does copy by copy. (A steeper one lets go of whole
    classes.)
    """
    own = scores.gather(2, labels.expand(len(scores), -1)[:, :, None])
    return count_short(soft_votes(own, scores).mean(0), labels, target)


def soft_votes(own: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """Near 1 for a copy that ranks the label, whose score is `own`, above a class, near -1 for one that does not."""
    return torch.tanh((own - scores) / (2 * SOFTNESS))


def count_short(leads: torch.Tensor, labels: torch.Tensor, target: float | torch.Tensor) -> torch.Tensor:
    """About how many inputs have a lead below the target, which may be one for each: leads is [inputs, classes]."""
    rivals = torch.arange(leads.shape[1], device=leads.device) != labels[:, None]
    smallest = -torch.logsumexp(torch.where(rivals, -WORST * leads, -torch.inf), dim=1) / WORST
    return torch.sigmoid(STEEPNESS * (target - smallest)).sum()


def divergence(logs: torch.Tensor) -> torch.Tensor:
    """The mean KL divergence of each copy's softmax output from their mean, summed over the inputs.

    logs: log-probabilities [copies, inputs, classes].
    """
    mean = logs.logsumexp(0) - math.log(len(logs))
    return (mean.exp() * (mean - logs.mean(0))).sum()


class CompiledObjective:
    """An objective compiled for each input shape; falls back to the eager one, with a warning, if compilation fails.

    It fails on machines without a C compiler, for example; training is then slower.
    """

    def __init__(self, eager: Objective) -> None:
        self.eager, self.compiled = eager, torch.compile(eager, dynamic=False)
        self.works = True

    def __call__(self, model: Scorer, copies: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if self.works:
            try:
                return self.compiled(model, copies, labels)
            except torch.OutOfMemoryError:
                raise
            except Exception as error:
                reason = (str(error).splitlines() or [""])[0]
                warnings.warn(
                    f"the network cannot be compiled here ({reason}); training continues, more slowly", stacklevel=2
                )
                self.works = False
        return self.eager(model, copies, labels)
