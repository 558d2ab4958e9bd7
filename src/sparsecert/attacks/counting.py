"""Counts evaluations."""

from __future__ import annotations

import torch

from sparsecert.attacks.defenders import Answers, Defender
from sparsecert.progress import OnProgress
from sparsecert.smoothed import Smoothed


class CountingDefender(Defender):
    """Wraps a defender and calls `on_progress(0, evaluations)` at each query."""

    def __init__(self, defender: Defender, on_progress: OnProgress) -> None:
        self.defender, self.on_progress = defender, on_progress

    def answers(
        self, images: torch.Tensor, slots: torch.Tensor | None = None, against: torch.Tensor | None = None
    ) -> Answers:
        answers = self.defender.answers(images, slots, against)
        self.on_progress(0, int(answers.evaluations.sum()))
        return answers

    def accept(self, places: torch.Tensor) -> None:
        self.defender.accept(places)

    def scores(self, images: torch.Tensor) -> torch.Tensor:
        self.on_progress(0, len(images) * self.evaluations_of_scores)
        return self.defender.scores(images)

    @property
    def evaluations_of_scores(self) -> int:
        return self.defender.evaluations_of_scores

    @property
    def white_box(self) -> Smoothed | None:
        return self.defender.white_box

    @property
    def is_random(self) -> bool:
        return self.defender.is_random
