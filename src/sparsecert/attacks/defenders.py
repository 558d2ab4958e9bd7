"""Defenders: classifiers under attack, each with the rule by which it answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sparsecert.errors import InputError
from sparsecert.procedures import Fixed, procedure_for
from sparsecert.procedures.pipelining import finish
from sparsecert.schemes import ATTACK
from sparsecert.smoothed import Smoothed
from sparsecert.votes.copies import Copies
from sparsecert.votes.eval_mode import in_eval_mode
from sparsecert.votes.probe import hint_for
from sparsecert.votes.voter import Voter

ABSTAINS = -1


@dataclass(frozen=True)
class Answers:
    """A defender's answers to a batch of images.

    labels: int64[b], or ABSTAINS. scores: float[b, classes], larger is more likely. evaluations: int64[b], forward
    passes of the base classifier for each image.
    """

    labels: torch.Tensor
    scores: torch.Tensor
    evaluations: torch.Tensor


def margins(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """float[b]: the score of each label minus the largest other score; an attack makes it negative."""
    own = scores.gather(1, labels[:, None])[:, 0]
    return own - scores.scatter(1, labels[:, None], -torch.inf).amax(dim=1)


def leads(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """float[b]: the largest score of a class other than the label, minus the largest of all the other classes.

    Positive where such a class wins. Where the label has the largest score, it is the negative of `margins`.
    """
    rivals = scores.scatter(1, labels[:, None], -torch.inf).argmax(dim=1)
    return margins(scores, rivals)


def scores_by_pairs(above: torch.Tensor, own: torch.Tensor, copies: int) -> torch.Tensor:
    """float[b, classes]: shares of the copies, by comparisons with the class `own`, int64[b], of each input.

    above: int64[b, classes], how many copies rank that class above another one, and for itself the valid ones. Its own
    score is the smallest of these shares, and that of any other class the share that rank it above `own`. So the own
    class has the largest score if it beats every other one, and `margins` are then its smallest lead.
    """
    place = own[:, None]
    scores = (above.gather(1, place) - above).scatter(1, place, above.amin(dim=1, keepdim=True))
    return scores.float() / copies


class NoGradients(InputError):
    """Raised by a gradient attack on a defender that has none."""


class Defender(ABC):
    """A classifier under attack; one query is one image."""

    @abstractmethod
    def answers(
        self, images: torch.Tensor, slots: torch.Tensor | None = None, against: torch.Tensor | None = None
    ) -> Answers:
        """Answers to images [b, channels, *places], or [b, features], on the CPU.

        Two hints let some defenders save work. `slots`, one number per image: the search that it belongs to; successive
        images of a search are nearly alike. `against`, one label per image: only whether that is the answer matters.
        """

    def accept(self, places: torch.Tensor) -> None:  # noqa: B027, most defenders save nothing by it
        """Tells that the attack continues from the images at these places of the last query, each in its slot."""

    def scores(self, images: torch.Tensor) -> torch.Tensor:
        """float[b, classes] that gradients flow through, for attacks that need them."""
        raise NoGradients(f"{type(self).__name__} has no gradients; use a black-box attack")

    @property
    def evaluations_of_scores(self) -> int:
        """Forward passes of the base classifier for the `scores` of one image."""
        return 1

    @property
    def white_box(self) -> Smoothed | None:
        """The classifier that an attack may look into, where it is smoothed."""
        return getattr(self, "smoothed", None)

    @property
    def is_random(self) -> bool:
        """Whether repeated queries of one image may be answered differently."""
        return False


class Network(Defender):
    """A plain network, or any function from a batch of images to scores [b, classes]: the largest score wins.

    A module is in eval mode during each query; its mode is restored afterwards.
    """

    def __init__(self, model: Callable[[torch.Tensor], torch.Tensor], device: str | torch.device = "cpu") -> None:
        self.model, self.device = model, torch.device(device)

    def answers(
        self, images: torch.Tensor, slots: torch.Tensor | None = None, against: torch.Tensor | None = None
    ) -> Answers:
        """Abstains only where a score is not finite. Scores are compared in the model's own dtype."""
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
        with in_eval_mode(self.model):
            return self.model(images.to(self.device)).float().cpu()


class Estimator(Defender):
    """A scikit-learn classifier on the flattened images; its classes must be 0, 1, 2, ...

    A label of -1 is an abstention, as by scikit-learn's `outlier_label=-1`; any other that is not a class is an error.
    """

    def __init__(self, estimator: Any) -> None:
        known = np.asarray(estimator.classes_)
        if not np.array_equal(known, np.arange(len(known))):
            raise InputError(f"the estimator's classes must be 0, 1, 2, ..., got {known[:10]}")
        self.estimator, self.classes = estimator, len(known)

    def answers(
        self, images: torch.Tensor, slots: torch.Tensor | None = None, against: torch.Tensor | None = None
    ) -> Answers:
        """Scores are probabilities where the estimator has them, else one-hot labels."""
        rows = images.flatten(1).numpy()
        labels = self._labels(self.estimator.predict(rows.copy()))  # some estimators scale the rows in place
        if hasattr(self.estimator, "predict_proba"):
            given = torch.from_numpy(np.asarray(self.estimator.predict_proba(rows.copy()), dtype=np.float32))
            scores = given.nan_to_num(nan=-torch.inf)
        else:
            scores = (labels[:, None] == torch.arange(self.classes)).float()
        return Answers(labels, scores, torch.ones(len(images), dtype=torch.int64))

    def _labels(self, predicted: Any) -> torch.Tensor:
        """int64[b]; some libraries return a column."""
        predictions = np.asarray(predicted)
        predictions = predictions[:, 0] if predictions.ndim == 2 and predictions.shape[1] == 1 else predictions
        unknown = ~np.isin(predictions, np.arange(ABSTAINS, self.classes))
        if unknown.any():
            raise ValueError(
                f"the estimator's classes are 0 to {self.classes - 1}, it predicted {predictions[unknown][0]}"
            )
        return torch.from_numpy(predictions.astype(np.int64))


def check_unprotected(smoothed: Smoothed) -> None:
    """Refuses a classifier with protected entries: attacks perturb those too."""
    if smoothed.encoding.protected:
        raise InputError(
            f"attacks perturb any entry, and {smoothed.encoding.protected} entries of this classifier's inputs are "
            "protected: its certificates do not cover changes there"
        )


def probabilities(smoothed: Smoothed, inputs: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
    """float[b, masks, classes]: those of the base classifier for each copy; gradients flow through them."""
    copies = smoothed.encoding(inputs.repeat_interleave(len(masks), dim=0), masks.repeat(len(inputs), 1))
    with in_eval_mode(smoothed.model):
        shares = smoothed.model(copies).float().softmax(dim=1)
    return shares.view(len(inputs), len(masks), -1)


class SmoothedDefender(Defender):
    """A smoothed classifier that predicts, or abstains, as `Smoothed.predict` does, with `n` ablated copies per image.

    It is the classifier that `bound` certifies, by default the model's own: "pairwise" the class that beats every other
    one, the others the class with most votes. Each query draws fresh masks: answers are random, and what an attack
    finds is confirmed (see `Attack`). Votes have no gradient; `scores` are the base classifier's probabilities,
    averaged over `copies` masks that are the same for all images and queries.
    """

    def __init__(
        self,
        smoothed: Smoothed,
        n: int = 10_000,
        alpha: float = 0.05,
        seed: int = 0,
        copies: int = 128,
        bound: str | None = None,
    ) -> None:
        check_unprotected(smoothed)
        self.smoothed, self.n, self.alpha, self.seed, self.copies = smoothed, n, alpha, seed, copies
        procedure = procedure_for(smoothed, Fixed(n=n, bound=bound))
        assert isinstance(procedure, Fixed)
        self.procedure, self.tested = procedure, procedure.tested
        self._asked = 0
        self._voter: Voter | None = None

    @property
    def is_random(self) -> bool:
        return True

    def answers(
        self, images: torch.Tensor, slots: torch.Tensor | None = None, against: torch.Tensor | None = None
    ) -> Answers:
        """Scores are shares of the votes; by pairs, of comparisons with the class that was chosen."""
        examples = range(self._asked, self._asked + len(images))
        self._asked += len(images)
        self._voter = self._voter or self.smoothed.voter(images[:1])
        copies = Copies(self._voter, self.smoothed.check(images), examples, self.seed)
        predictions = finish(self.procedure.predict(copies, self.alpha))
        labels = torch.from_numpy(np.where(predictions.abstained, ABSTAINS, predictions.labels))
        if predictions.selection is None or predictions.votes.above is None:
            shares = torch.from_numpy(predictions.counts / self.n).float()
        else:
            above, chosen = torch.from_numpy(predictions.votes.above), torch.from_numpy(predictions.selection.labels)
            shares = scores_by_pairs(above, chosen, self.tested)
        return Answers(labels, shares, torch.full((len(images),), self.n))

    def scores(self, images: torch.Tensor) -> torch.Tensor:
        """Mean probabilities of the base classifier over `copies` fixed masks."""
        smoothed = self.smoothed
        inputs = images.to(smoothed.device, smoothed.check(images).dtype)
        masks = smoothed.scheme.masks(self.seed, [0], range(ATTACK, ATTACK + self.copies), smoothed.device)[0]
        return probabilities(smoothed, inputs, masks).mean(dim=1).cpu()

    @property
    def evaluations_of_scores(self) -> int:
        return self.copies
