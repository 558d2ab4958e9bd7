"""What another library's attack sees of a smoothed classifier: scores whose argmax is its answer."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from sparsecert.attacks.defenders import ABSTAINS, SmoothedDefender
from sparsecert.attacks.surrogate import SurrogateDefender
from sparsecert.errors import InputError, check_int
from sparsecert.procedures import check_settings
from sparsecert.smoothed import MOST_ROWS, Smoothed

ABSTAIN_SCORE = 2.0  # above every share of the votes


class Scores(nn.Module):
    """Maps images with values from 0 to 1 to float[b, classes + 1], whose argmax is the answer of `predict`.

    The scores are the classes' shares of the `n` votes, then one for the class "abstains": 2 if the classifier
    abstains, else 0. A library that compares the argmax with the true label thus counts an abstention as fooled, as our
    own attacks do. With `abstains=False` that class is left out, and the argmax is the class with the most votes. For a
    model whose own bound is pairwise the shares are of comparisons with one class: see `scores_by_pairs`.

    Each query draws fresh masks, as for any user, so the same image may get different answers. Some attacks do not
    expect that (Foolbox's Pointwise fails an assertion). With `fresh=False` all queries share the same masks, and the
    scores are deterministic; adversarial images are then tuned to these masks: check them with a `SmoothedDefender`.

    Votes have no gradient. In its place attacks get that of the base classifier's probabilities, averaged over `copies`
    fixed masks; parameter gradients are left alone. Queries are split into batches of `batch` images.
    """

    def __init__(
        self,
        smoothed: Smoothed,
        n: int = 10_000,
        alpha: float = 0.05,
        seed: int = 0,
        *,
        batch: int = 64,
        copies: int = 128,
        abstains: bool = True,
        fresh: bool = True,
    ) -> None:
        super().__init__()
        check_settings(smoothed.scheme, seed, alpha, n=n)
        self.smoothed = smoothed
        self.surrogate = SmoothedDefender(smoothed, n, alpha, seed, check_int("copies", copies, 1, MOST_ROWS))
        self.defender = self.surrogate if fresh else SurrogateDefender(smoothed, n, alpha, seed)
        self.batch, self.abstains = check_int("batch", batch, 1, MOST_ROWS), abstains
        self.train(False)  # libraries check this; the base classifier is set to eval mode for each query

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = _SurrogateVotes.apply(images, self)  # type: ignore[no-untyped-call]
        return scores

    def vote_scores(self, images: torch.Tensor) -> torch.Tensor:
        """The scores, on the images' device and in their dtype."""
        return torch.cat([self._vote_scores(images[rows]) for rows in self._batches(images)]).to(images)

    def _vote_scores(self, images: torch.Tensor) -> torch.Tensor:
        answers = self.defender.answers(images.detach().cpu())
        if not self.abstains:
            return answers.scores
        last = torch.where(answers.labels == ABSTAINS, ABSTAIN_SCORE, 0.0)
        return torch.cat((answers.scores, last[:, None]), dim=1)

    def surrogate_gradient(self, images: torch.Tensor, grad_scores: torch.Tensor) -> torch.Tensor:
        """Backpropagates through the mean probabilities in place of the votes; "abstains" has no gradient."""
        return torch.cat([self._surrogate_gradient(images[rows], grad_scores[rows]) for rows in self._batches(images)])

    def _surrogate_gradient(self, images: torch.Tensor, grad_scores: torch.Tensor) -> torch.Tensor:
        inputs = self.smoothed.check(images).requires_grad_()
        with torch.enable_grad():
            scores = self._mean_probabilities(inputs)
        (gradient,) = torch.autograd.grad(scores, inputs, grad_scores[:, : scores.shape[1]].to(scores))
        return gradient.to(images)

    def _mean_probabilities(self, inputs: torch.Tensor) -> torch.Tensor:
        model = self.smoothed.model
        message = f"the model, a {type(model).__name__}, has no gradients; use an attack that asks for scores or labels"
        try:
            scores = self.surrogate.scores(inputs)
        except RuntimeError as error:  # such as NumPy refusing a tensor that requires grad
            raise error if isinstance(model, nn.Module) else InputError(message) from error
        if not scores.requires_grad:
            raise InputError(message)
        return scores

    def _batches(self, images: torch.Tensor) -> list[slice]:
        return [slice(start, start + self.batch) for start in range(0, len(images), self.batch)]


class _SurrogateVotes(torch.autograd.Function):
    """Votes in the forward pass, mean probabilities in the backward pass."""

    @staticmethod
    def forward(context: Any, images: torch.Tensor, scores: Scores) -> torch.Tensor:
        context.save_for_backward(images)
        context.scores = scores
        return scores.vote_scores(images)

    @staticmethod
    def backward(context: Any, *grad_scores: torch.Tensor) -> tuple[torch.Tensor, None]:
        (images,) = context.saved_tensors
        return context.scores.surrogate_gradient(images, grad_scores[0]), None
