"""Counts evaluations."""

from __future__ import annotations

from collections.abc import Callable

import torch

from sparsecert.attacks.defenders import Answers, Defender


class CountingDefender(Defender):
    """Wraps a defender and reports the evaluations of each query to `on_progress`."""

    def __init__(self, defender: Defender, on_progress: Callable[[int], None]) -> None:
        self.defender, self.on_progress = defender, on_progress

    def answers(
        self, images: torch.Tensor, slots: torch.Tensor | None = None, against: torch.Tensor | None = None
    ) -> Answers:
        answers = self.defender.answers(images, slots, against)
        self.on_progress(int(answers.evaluations.sum()))
        return answers

    def accept(self, places: torch.Tensor) -> None:
        self.defender.accept(places)

    def scores(self, images: torch.Tensor) -> torch.Tensor:
        self.on_progress(len(images) * self.evaluations_of_scores)
        return self.defender.scores(images)

    @property
    def evaluations_of_scores(self) -> int:
        return self.defender.evaluations_of_scores

    @property
    def is_random(self) -> bool:
        return self.defender.is_random
