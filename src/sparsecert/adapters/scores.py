"""What another library's attack sees of a smoothed classifier: scores whose largest is its answer."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from sparsecert.attacks.defenders import ABSTAINS, SmoothedDefender
from sparsecert.attacks.surrogate import CommonMasks
from sparsecert.checks import whole
from sparsecert.errors import InputError
from sparsecert.procedures import check_settings
from sparsecert.smoothed import MOST_ROWS, Smoothed

ABSTAINING = 2.0  # the score of the class "abstains" where it does: above every share of the votes


class Scores(nn.Module):
    """Images with values from 0 to 1 in, float[b, classes + 1] out, whose largest entry is what `predict` answers.

    The scores of the classes are their shares of the `n` votes. The last one is of the class "abstains": 2 where the
    classifier abstains, else 0. So a library that asks whether the largest score is that of the true label counts an
    abstention as fooled, as our own attacks do. With `abstains=False` that class is left out: the largest score is the
    most voted class, also where the classifier would have abstained.

    Each query draws masks of its own, as the classifier does for its users: asked twice about one image, it may answer
    differently. Some attacks do not expect that (Foolbox's Pointwise stops with an assertion). With `fresh=False` all
    queries have the same masks, and one image always the same scores; what is then found is tuned to these masks, and
    is to be judged again by a `SmoothedDefender`.

    Votes have no gradient. Attacks that ask for one are given that of the base classifier's probabilities, averaged
    over `copies` masks that are always the same; the gradients of its weights are left alone. `batch` images are asked
    about at a time.
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
        self.slopes = SmoothedDefender(smoothed, n, alpha, seed, whole("copies", copies, 1, MOST_ROWS))
        self.defender = self.slopes if fresh else CommonMasks(smoothed, n, alpha, seed)
        self.batch, self.abstains = whole("batch", batch, 1, MOST_ROWS), abstains
        self.train(False)  # the base classifier is put into eval mode for each query, and libraries look here for it

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """The scores, on the images' device and of their dtype."""
        scores: torch.Tensor = _Votes.apply(images, self)  # type: ignore[no-untyped-call]
        return scores

    def voted(self, images: torch.Tensor) -> torch.Tensor:
        """The scores by votes."""
        return torch.cat([self._voted(images[rows]) for rows in self._batches(images)]).to(images)

    def _voted(self, images: torch.Tensor) -> torch.Tensor:
        said = self.defender.answers(images.detach().cpu())
        if not self.abstains:
            return said.scores
        last = torch.where(said.labels == ABSTAINS, ABSTAINING, 0.0)
        return torch.cat((said.scores, last[:, None]), dim=1)

    def pulled_back(self, images: torch.Tensor, slopes: torch.Tensor) -> torch.Tensor:
        """The gradient at the images of the sum of slopes times mean probabilities; "abstains" has none."""
        return torch.cat([self._pulled_back(images[rows], slopes[rows]) for rows in self._batches(images)])

    def _pulled_back(self, images: torch.Tensor, slopes: torch.Tensor) -> torch.Tensor:
        inputs = self.smoothed.check(images).requires_grad_()
        with torch.enable_grad():
            scores = self._mean_probabilities(inputs)
        (gradient,) = torch.autograd.grad(scores, inputs, slopes[:, : scores.shape[1]].to(scores))
        return gradient.to(images)

    def _mean_probabilities(self, inputs: torch.Tensor) -> torch.Tensor:
        model = self.smoothed.model
        closed = f"the model, a {type(model).__name__}, has no gradients; use an attack that asks for scores or labels"
        try:
            scores = self.slopes.scores(inputs)
        except RuntimeError as error:  # such as NumPy's refusal of a tensor that gradients flow through
            raise error if isinstance(model, nn.Module) else InputError(closed) from error
        if not scores.requires_grad:
            raise InputError(closed)
        return scores

    def _batches(self, images: torch.Tensor) -> list[slice]:
        return [slice(start, start + self.batch) for start in range(0, len(images), self.batch)]


class _Votes(torch.autograd.Function):
    """The votes on the way forward, mean probabilities on the way back."""

    @staticmethod
    def forward(context: Any, images: torch.Tensor, scores: Scores) -> torch.Tensor:
        context.save_for_backward(images)
        context.scores = scores
        return scores.voted(images)

    @staticmethod
    def backward(context: Any, *slopes: torch.Tensor) -> tuple[torch.Tensor, None]:
        (images,) = context.saved_tensors
        return context.scores.pulled_back(images, slopes[0]), None
