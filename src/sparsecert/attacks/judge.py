"""Who decides whether an attack succeeded, counts what it asked, and keeps the best it found."""

from __future__ import annotations

from collections.abc import Callable

import torch

from sparsecert.attacks.defenders import Answers, Defender

NEVER = -1  # the distance of an image for which nothing was found


def changed(images: torch.Tensor, originals: torch.Tensor) -> torch.Tensor:
    """Bool[b, pixels]: the pixels in which each image differs; all channels of a pixel are one."""
    differs = images != originals
    return (differs if differs.ndim == 2 else differs.any(dim=1)).flatten(1)


class Judge:
    """The only way for an attack to the defender.

    An attempt succeeds when the defender does not answer the true label: it answers another, or abstains. Of the
    successful ones within the budget, the one of each image with the fewest changed pixels is kept. Attempts outside
    the bounds are refused: they are a mistake of the attack, not a finding.
    """

    def __init__(
        self,
        defender: Defender,
        images: torch.Tensor,
        labels: torch.Tensor,
        bounds: tuple[float, float],
        budget: int | None,
    ) -> None:
        self.defender, self.images, self.labels = defender, images, labels
        self.bounds, self.budget = bounds, budget
        self.best = images.clone()
        self.distances = torch.full((len(images),), NEVER, dtype=torch.int64)
        self.queries = torch.zeros(len(images), dtype=torch.int64)
        self.evaluations = torch.zeros(len(images), dtype=torch.int64)

    @property
    def pixels(self) -> int:
        """How many an image has."""
        return changed(self.images[:1], self.images[:1]).shape[1]

    def fooled(self, attempts: torch.Tensor, which: torch.Tensor, slots: torch.Tensor | None = None) -> torch.Tensor:
        """Bool[m]: whether attempts[j], made from image which[j], fools the defender.

        `slots` names the lines of attempts that they belong to, where each goes on from the last that succeeded.
        """
        fooled, _ = self.asked(attempts, which, slots)
        if slots is not None:
            self.defender.went_on(fooled.nonzero()[:, 0])
        return fooled

    def asked(
        self, attempts: torch.Tensor, which: torch.Tensor, slots: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, Answers]:
        """The same, with all that the defender said."""
        low, high = self.bounds
        if not ((attempts >= low) & (attempts <= high)).all():
            raise ValueError(f"an attempt has values outside {low} to {high}")
        answers = self.defender.answers(attempts, slots)
        self.queries.index_add_(0, which, torch.ones_like(which))
        self.evaluations.index_add_(0, which, answers.evaluations)
        fooled = answers.labels != self.labels[which]
        self._keep(attempts, which, fooled)
        return fooled, answers

    def gradients(
        self, attempts: torch.Tensor, which: torch.Tensor, goal: Callable[[torch.Tensor], torch.Tensor]
    ) -> torch.Tensor:
        """The gradient at each attempt of goal(scores), where `goal` maps float[m, classes] to float[m].

        One query each, as the answer is.
        """
        attempts = attempts.detach().clone().requires_grad_()
        with torch.enable_grad():
            reached = goal(self.defender.scores(attempts)).sum()
        (gradients,) = torch.autograd.grad(reached, attempts)
        self.queries.index_add_(0, which, torch.ones_like(which))
        self.evaluations.index_add_(0, which, torch.full_like(which, self.defender.evaluations_of_scores))
        return gradients

    def _keep(self, attempts: torch.Tensor, which: torch.Tensor, fooled: torch.Tensor) -> None:
        distances = changed(attempts, self.images[which]).sum(dim=1)
        good = fooled if self.budget is None else fooled & (distances <= self.budget)
        for place in good.nonzero()[:, 0].tolist():
            image, distance = int(which[place]), int(distances[place])
            if self.distances[image] == NEVER or distance < self.distances[image]:
                self.best[image], self.distances[image] = attempts[place], distance
