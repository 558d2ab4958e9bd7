"""Who is attacked: a classifier with the rule by which it answers its users."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sparsecert.errors import InputError
from sparsecert.procedures import Fixed
from sparsecert.procedures.pipelining import finish
from sparsecert.progress import ignore
from sparsecert.schemes import ATTACK
from sparsecert.smoothed import Smoothed
from sparsecert.votes.eval_mode import in_eval_mode
from sparsecert.votes.probe import hint_for
from sparsecert.votes.voter import Voter

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


def leads(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """float[b]: the score of each label less the largest other one; an attack makes it negative."""
    own = scores.gather(1, labels[:, None])[:, 0]
    return own - scores.scatter(1, labels[:, None], -torch.inf).amax(dim=1)


def lead_of(labels: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """`leads` of these labels, as a function of the scores."""
    return lambda scores: leads(scores, labels)


class Defender(ABC):
    """Answers images; one query is one image."""

    @abstractmethod
    def answers(
        self, images: torch.Tensor, slots: torch.Tensor | None = None, against: torch.Tensor | None = None
    ) -> Answers:
        """Its answers to images [b, channels, *places], or [b, features], on the CPU.

        Two hints by which some defenders save work. `slots`, one number for each image: the line of attempts that it
        belongs to; images of a line are alike. `against`, one label for each image: the asker wants to know whether
        that is the answer, and nothing else.
        """

    def went_on(self, places: torch.Tensor) -> None:  # noqa: B027, most defenders save nothing by it
        """The attack goes on from the images at these places of the last query, each in its slot."""

    def scores(self, images: torch.Tensor) -> torch.Tensor:
        """float[b, classes] that gradients flow through, for attacks that need them."""
        raise InputError(f"{type(self).__name__} has no gradients; use an attack that asks for answers alone")

    @property
    def evaluations_of_scores(self) -> int:
        """How many times the base classifier is run for the scores of one image."""
        return 1

    @property
    def wavers(self) -> bool:
        """Whether it may answer one image differently when asked again, so that a long search meets lucky answers."""
        return False


class Network(Defender):
    """A plain network, or any function from a batch of images to scores [b, classes]: the largest score wins.

    A module is put into eval mode for each query and given back as it was.
    """

    def __init__(self, model: Callable[[torch.Tensor], torch.Tensor], device: str | torch.device = "cpu") -> None:
        self.model, self.device = model, torch.device(device)

    def answers(
        self, images: torch.Tensor, slots: torch.Tensor | None = None, against: torch.Tensor | None = None
    ) -> Answers:
        """Never abstains; a score that is not finite is no answer. The scores are compared in the model's own dtype."""
        with torch.no_grad(), in_eval_mode(self.model):
            scores = self.model(images.to(self.device))
        if not isinstance(scores, torch.Tensor):
            raise InputError(
                f"the model must give a tensor of scores (images, classes), got a {type(scores).__name__}"
                f"{hint_for(scores)}"
            )
        scores = scores.detach().cpu()
        if scores.ndim != 2 or len(scores) != len(images):
            raise InputError(f"the model must give scores (images, classes), got {tuple(scores.shape)}")
        labels = torch.where(scores.isfinite().all(dim=1), scores.argmax(dim=1), ABSTAINS)
        return Answers(labels, scores.float().nan_to_num(nan=-torch.inf), torch.ones(len(images), dtype=torch.int64))

    def scores(self, images: torch.Tensor) -> torch.Tensor:
        """The model's own."""
        with in_eval_mode(self.model):
            return self.model(images.to(self.device)).float().cpu()


class Estimator(Defender):
    """A scikit-learn classifier on the flattened images; its classes must be 0, 1, 2, ...

    A label of -1 is no answer, as by scikit-learn's `outlier_label=-1`; any other that is no class is an error.
    """

    def __init__(self, estimator: Any) -> None:
        known = np.asarray(estimator.classes_)
        if not np.array_equal(known, np.arange(len(known))):
            raise InputError(f"the estimator's classes must be 0, 1, 2, ..., got {known[:10]}")
        self.estimator, self.classes = estimator, len(known)

    def answers(
        self, images: torch.Tensor, slots: torch.Tensor | None = None, against: torch.Tensor | None = None
    ) -> Answers:
        """Scores are probabilities where the estimator has them, else 1 for its answer and 0 for the others."""
        rows = images.flatten(1).numpy()
        labels = self._labels(self.estimator.predict(rows.copy()))  # some estimators scale the rows in place
        if hasattr(self.estimator, "predict_proba"):
            given = torch.from_numpy(np.asarray(self.estimator.predict_proba(rows.copy()), dtype=np.float32))
            scores = given.nan_to_num(nan=-torch.inf)
        else:
            scores = (labels[:, None] == torch.arange(self.classes)).float()
        return Answers(labels, scores, torch.ones(len(images), dtype=torch.int64))

    def _labels(self, predicted: Any) -> torch.Tensor:
        """int64[b]; a column, as some libraries give, is as good as a row."""
        said = np.asarray(predicted)
        said = said[:, 0] if said.ndim == 2 and said.shape[1] == 1 else said
        strange = ~np.isin(said, np.arange(ABSTAINS, self.classes))
        if strange.any():
            raise ValueError(f"the estimator's classes are 0 to {self.classes - 1}, it predicted {said[strange][0]}")
        return torch.from_numpy(said.astype(np.int64))


def refuse_protected(smoothed: Smoothed) -> None:
    """Refuses a classifier whose certificates leave out entries that an attack would alter."""
    if smoothed.encoding.protected:
        raise InputError(
            f"attacks alter any entry, and {smoothed.encoding.protected} entries of this classifier's inputs are "
            "protected: its certificates say nothing of changes there"
        )


class SmoothedDefender(Defender):
    """A smoothed classifier that predicts with `n` ablated copies of each image and abstains as it does for its users.

    Each query draws masks of its own: what it answers is random, as it is for its users, and what an attack found is
    judged again (see `Attack`). Votes have no gradient; the
    scores that gradients flow through are the base classifier's probabilities, averaged over `copies` masks that are
    the same for all images and queries.
    """

    def __init__(
        self, smoothed: Smoothed, n: int = 10_000, alpha: float = 0.05, seed: int = 0, copies: int = 128
    ) -> None:
        refuse_protected(smoothed)
        self.smoothed, self.n, self.alpha, self.seed, self.copies = smoothed, n, alpha, seed, copies
        self._asked = 0
        self._voter: Voter | None = None

    @property
    def wavers(self) -> bool:
        """Its masks are fresh."""
        return True

    def answers(
        self, images: torch.Tensor, slots: torch.Tensor | None = None, against: torch.Tensor | None = None
    ) -> Answers:
        """Scores are shares of the votes."""
        examples = range(self._asked, self._asked + len(images))
        self._asked += len(images)
        self._voter = self._voter or self.smoothed.voter(images[:1])
        inputs = self.smoothed.check(images)
        said = finish(Fixed(n=self.n).predict(self._voter, inputs, examples, self.alpha, self.seed, ignore))
        labels = torch.from_numpy(np.where(said.abstained, ABSTAINS, said.labels))
        shares = torch.from_numpy(said.counts / self.n).float()
        return Answers(labels, shares, torch.full((len(images),), self.n))

    def scores(self, images: torch.Tensor) -> torch.Tensor:
        """Mean probabilities of the base classifier over the same masks for all."""
        smoothed = self.smoothed
        inputs = images.to(smoothed.device, smoothed.check(images).dtype)
        masks = smoothed.scheme.masks(self.seed, [0], range(ATTACK, ATTACK + self.copies), smoothed.device)[0]
        copies = smoothed.encoding(inputs.repeat_interleave(self.copies, dim=0), masks.repeat(len(inputs), 1))
        with in_eval_mode(smoothed.model):
            shares = smoothed.model(copies).float().softmax(dim=1)
        return shares.view(len(images), self.copies, -1).mean(dim=1).cpu()

    @property
    def evaluations_of_scores(self) -> int:
        """One for each of the masks."""
        return self.copies
