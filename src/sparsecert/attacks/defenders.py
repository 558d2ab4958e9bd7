"""Who is attacked: a classifier with the rule by which it answers its users."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sparsecert.errors import InputError
from sparsecert.smoothed import Smoothed

ABSTAINS = -1


@dataclass(frozen=True)
class Answers:
    """What a defender says to each of some images.

    labels: int64[b], ABSTAINS where it gives none. scores: float[b, classes], whatever it can tell besides: larger is
    more likely. evaluations: int64[b], how many times its base classifier was run for each.
    """

    labels: torch.Tensor
    scores: torch.Tensor
    evaluations: torch.Tensor

    def leads(self, labels: torch.Tensor) -> torch.Tensor:
        """float[b]: the score of each label less the largest other one; an attack makes it negative."""
        own = self.scores.gather(1, labels[:, None])[:, 0]
        return own - self.scores.scatter(1, labels[:, None], -torch.inf).amax(dim=1)


class Defender(ABC):
    """Answers images; one query is one image."""

    @abstractmethod
    def answers(self, images: torch.Tensor) -> Answers:
        """Its answers to images [b, channels, *places], or [b, features], on the CPU."""


class Network(Defender):
    """A plain network, or any function from a batch of images to scores [b, classes]: the largest score wins."""

    def __init__(self, model: Callable[[torch.Tensor], torch.Tensor], device: str | torch.device = "cpu") -> None:
        self.model, self.device = model, torch.device(device)

    def answers(self, images: torch.Tensor) -> Answers:
        """Never abstains; a score that is not finite is no answer."""
        with torch.no_grad():
            scores = self.model(images.to(self.device)).detach().float().cpu()
        if scores.ndim != 2 or len(scores) != len(images):
            raise InputError(f"the model must give scores (images, classes), got {tuple(scores.shape)}")
        labels = torch.where(scores.isfinite().all(dim=1), scores.argmax(dim=1), ABSTAINS)
        return Answers(labels, scores.nan_to_num(nan=-torch.inf), torch.ones(len(images), dtype=torch.int64))


class Estimator(Defender):
    """A scikit-learn classifier on the flattened images; its classes must be 0, 1, 2, ..."""

    def __init__(self, estimator: Any) -> None:
        known = np.asarray(estimator.classes_)
        if not np.array_equal(known, np.arange(len(known))):
            raise InputError(f"the estimator's classes must be 0, 1, 2, ..., got {known[:10]}")
        self.estimator, self.classes = estimator, len(known)

    def answers(self, images: torch.Tensor) -> Answers:
        """Scores are probabilities where the estimator has them, else 1 for its answer and 0 for the others."""
        rows = images.flatten(1).numpy()
        labels = torch.from_numpy(np.asarray(self.estimator.predict(rows), dtype=np.int64))
        if hasattr(self.estimator, "predict_proba"):
            scores = torch.from_numpy(np.asarray(self.estimator.predict_proba(rows), dtype=np.float32))
        else:
            scores = torch.nn.functional.one_hot(labels, self.classes).float()
        return Answers(labels, scores, torch.ones(len(images), dtype=torch.int64))


class SmoothedDefender(Defender):
    """A smoothed classifier that predicts with `n` ablated copies of each image and abstains as it does for its users.

    Each query draws masks of its own: what it answers is random, as it is for its users.
    """

    def __init__(self, smoothed: Smoothed, n: int = 10_000, alpha: float = 0.05, seed: int = 0) -> None:
        self.smoothed, self.n, self.alpha, self.seed = smoothed, n, alpha, seed
        self._asked = 0

    def answers(self, images: torch.Tensor) -> Answers:
        """Scores are shares of the votes."""
        examples = range(self._asked, self._asked + len(images))
        self._asked += len(images)
        said = self.smoothed.predict(images, n=self.n, alpha=self.alpha, seed=self.seed, examples=examples)
        labels = torch.from_numpy(np.where(said.abstained, ABSTAINS, said.labels))
        shares = torch.from_numpy(said.counts / self.n).float()
        return Answers(labels, shares, torch.full((len(images),), self.n))
