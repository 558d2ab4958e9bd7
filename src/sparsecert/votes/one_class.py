"""Warns where all votes go to one class: the model was probably not trained on ablated copies."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import torch

from sparsecert.errors import OneClassWarning

if TYPE_CHECKING:
    from sparsecert.counts import Int64
    from sparsecert.votes.voter import Voter

LEAST_INPUTS, MOST_INPUTS = 20, 1_000  # compared
NEARLY_ALL, FEWER = 0.8, 0.6  # the share of one class: at least that of the answers, at most that of what is expected


def overrated(answers: Int64, expected: Int64) -> int | None:
    """The class that gets nearly all answers, where far fewer are expected; None if there is none, or few inputs.

    Both are counts of each class, int64[classes].
    """
    leader, answered, wanted = int(answers.argmax()), int(answers.sum()), int(expected.sum())
    if min(answered, wanted) < LEAST_INPUTS or answers[leader] < NEARLY_ALL * answered:
        return None
    return leader if expected[leader] <= FEWER * wanted else None


class OneClass:
    """Compares the answers to a voter's inputs with the model's to the same inputs whole, and warns once.

    A model that never saw an ablated copy may give the same class to all of them: the certificates are right, and
    useless. Whole inputs are scored only while one class has nearly all answers, so other runs lose no time. A model
    that recognises the mask of a copy, or fails on a whole input, is left alone.
    """

    def __init__(self, voter: Voter) -> None:
        self._voter = voter
        self._seen = np.zeros(voter.classes, dtype=np.int64)  # answers from votes
        self._whole = np.zeros(voter.classes, dtype=np.int64)
        self._waiting: list[torch.Tensor] = []  # inputs, until there are enough of them
        self._done = hasattr(voter.model, "score_all")  # it recognises the mask of a copy

    def compare(self, inputs: torch.Tensor, labels: Int64) -> None:
        """Takes the answers to some inputs, int64[b]."""
        if self._done:
            return
        self._seen += np.bincount(labels, minlength=len(self._seen))
        self._waiting.append(inputs)
        answered = int(self._seen.sum())
        one_leads = self._seen.max() >= NEARLY_ALL * answered
        if one_leads and answered < LEAST_INPUTS:
            return
        if one_leads:
            self._add_whole(torch.cat(self._waiting))
        self._waiting.clear()
        if (leader := overrated(self._seen, self._whole)) is not None:
            self._done = True
            warnings.warn(
                f"nearly all inputs get class {leader} from their ablated copies, while the model gives the same "
                "inputs whole several classes; train it on ablated copies, or its certificates are of no use",
                OneClassWarning,
                stacklevel=6,
            )
        self._done |= int(self._whole.sum()) >= MOST_INPUTS

    def _add_whole(self, inputs: torch.Tensor) -> None:
        """Adds what the model answers to these inputs, or to MOST_INPUTS evenly spaced ones of them."""
        count = min(len(inputs), MOST_INPUTS)
        some = torch.arange(count, device=inputs.device) * len(inputs) // count
        try:
            labels = self._voter.whole_labels(inputs[some])
        except Exception:
            self._done = True  # the model takes copies alone
            return
        self._whole += np.bincount(labels, minlength=len(self._whole) + 1)[:-1]
