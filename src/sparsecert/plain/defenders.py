"""Plain classifiers as defenders."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from sparsecert import datasets
from sparsecert.attacks.defenders import ABSTAINS, Answers, Network, NoGradients
from sparsecert.datasets import Dataset
from sparsecert.errors import InputError
from sparsecert.plain.autoencoders import Autoencoders
from sparsecert.plain.files import load
from sparsecert.plain.neighbours import NearestNeighbour
from sparsecert.plain.networks import Binarized
from sparsecert.plain.synthesis import AnalysisBySynthesis
from sparsecert.votes.batches import few_batch_sizes

NEAREST_NEIGHBOUR = "nearest-neighbour"
ROWS = 4096
NO_GRADIENTS = "a binarized network has zero gradients; use a black-box attack"


class SynthesisDefender(Network):
    """Analysis by synthesis. A query about one label compares its class with few rivals: the one that won the search's
    last successful query first, then the nearest.

    That only proposes: what an attack finds is confirmed by the whole inference of all classes, which any other query
    gets, such as the first one of an attack; it starts all searches anew.
    """

    model: AnalysisBySynthesis

    def __init__(self, model: AnalysisBySynthesis, device: str | torch.device = "cpu") -> None:
        super().__init__(model, device)
        self._winners: dict[int, int] = {}  # by slot

    def answers(
        self, images: torch.Tensor, slots: torch.Tensor | None = None, against: torch.Tensor | None = None
    ) -> Answers:
        if against is None:
            self._winners.clear()
            return super().answers(images)
        searches, labels = [None] * len(images) if slots is None else slots.tolist(), against.tolist()
        first = [self._winners.get(slot, label) for slot, label in zip(searches, labels, strict=True)]
        model = partial(self.model, against=against, first=torch.tensor(first, dtype=torch.int64))
        answers = Network(model, self.device).answers(images)
        for slot, label, answer in zip(searches, labels, answers.labels.tolist(), strict=True):
            if slot is not None and answer not in (label, ABSTAINS):
                self._winners[slot] = answer
        return answers

    def scores(self, images: torch.Tensor) -> torch.Tensor:
        if self.model.binarized:
            raise NoGradients(NO_GRADIENTS)
        return super().scores(images)

    @property
    def is_random(self) -> bool:
        """Not by chance, but a query about one label may be answered differently from one without."""
        return True


class PlainNetwork(Network):
    """A network of `sparsecert.plain`, in batches of at most 4,096 images; gradients of a binarized one are refused."""

    def __init__(self, model: torch.nn.Module, device: str | torch.device = "cpu") -> None:
        model = model.eval().to(device).requires_grad_(False)
        self.binarized = isinstance(model, Binarized)
        super().__init__(_in_batches(model), device)

    def scores(self, images: torch.Tensor) -> torch.Tensor:
        if self.binarized:
            raise NoGradients(NO_GRADIENTS)
        return super().scores(images)


def _in_batches(model: torch.nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
    """The model for any number of images, in few different batch sizes: a GPU prepares anew for each."""

    def scores(images: torch.Tensor) -> torch.Tensor:
        parts, done = [], 0
        while done < len(images):
            rows, padded = few_batch_sizes(len(images) - done, ROWS, images.device)
            places = torch.arange(done, done + padded, device=images.device).clamp_(max=len(images) - 1)
            parts.append(model(images[places])[:rows])
            done += rows
        return torch.cat(parts) if parts else model(images)

    return scores


def defender_for(
    model: str | Path, data: Dataset, device: str | torch.device = "cpu", data_dir: str | Path | None = None
) -> Network:
    """The defender of the images of `data`: the plain network of a file or run folder, or, by the name
    `nearest-neighbour`, the training images of that data set, loaded from `data_dir`.
    """
    if str(model) == NEAREST_NEIGHBOUR:
        training = datasets.load_training(data.name, data_dir)
        return Network(NearestNeighbour.from_dataset(training, device), device)
    network, facts = load(model)
    for name, found, wanted in (
        ("images", facts.get("shape"), list(data.images.shape)),
        ("classes", facts.get("class_names"), list(data.classes)),
    ):
        if found != wanted:
            raise InputError(f"{model} was trained on other {name} than {data.name} has: {found}, not {wanted}")
    if isinstance(network, Autoencoders):
        return SynthesisDefender(AnalysisBySynthesis(network, device), device)
    return PlainNetwork(network, device)
