"""Wraps a defender and reports progress."""

from __future__ import annotations

from collections.abc import Callable

import torch

from sparsecert.attacks.defenders import Answers, Defender


class CountingDefender(Defender):
    """Answers as another defender does, and tells `on_progress` of every query how many evaluations it took."""

    def __init__(self, defender: Defender, on_progress: Callable[[int], None]) -> None:
        self.defender, self.on_progress = defender, on_progress

    def answers(
        self, images: torch.Tensor, slots: torch.Tensor | None = None, against: torch.Tensor | None = None
    ) -> Answers:
        """The other's."""
        answers = self.defender.answers(images, slots, against)
        self.on_progress(int(answers.evaluations.sum()))
        return answers

    def went_on(self, places: torch.Tensor) -> None:
        self.defender.went_on(places)

    def scores(self, images: torch.Tensor) -> torch.Tensor:
        """The other's."""
        self.on_progress(len(images) * self.evaluations_of_scores)
        return self.defender.scores(images)

    @property
    def evaluations_of_scores(self) -> int:
        """The other's."""
        return self.defender.evaluations_of_scores

    @property
    def wavers(self) -> bool:
        """As the other does."""
        return self.defender.wavers
