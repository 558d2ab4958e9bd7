"""Plain classifiers as attacks see them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from sparsecert import datasets
from sparsecert.attacks.defenders import Network
from sparsecert.datasets import Dataset
from sparsecert.errors import InputError
from sparsecert.plain.files import load
from sparsecert.plain.neighbours import NearestNeighbour
from sparsecert.plain.networks import Binarized
from sparsecert.votes.batches import few_batch_sizes

NEAREST_NEIGHBOUR = "nearest-neighbour"
ROWS = 4096
TRAINED_ON = {"mnist-sample": "mnist"}  # where a data set has no training images of its own


class PlainNetwork(Network):
    """A network of `sparsecert.plain`, asked about at most 4,096 images at a time.

    A binarized one has no gradient to follow, and says so.
    """

    def __init__(self, model: torch.nn.Module, device: str | torch.device = "cpu") -> None:
        model = model.eval().to(device).requires_grad_(False)
        self.binarized = isinstance(model, Binarized)
        super().__init__(_in_pieces(model), device)

    def scores(self, images: torch.Tensor) -> torch.Tensor:
        """The network's own."""
        if self.binarized:
            raise InputError("a binarized network has zero gradients; use an attack that asks for answers alone")
        return super().scores(images)


def _in_pieces(model: torch.nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
    """The model for any number of images; the GPU, which prepares anew for every number, meets few different ones."""

    def scores(images: torch.Tensor) -> torch.Tensor:
        parts, done = [], 0
        while done < len(images):
            rows, filled = few_batch_sizes(len(images) - done, ROWS, images.device)
            places = torch.arange(done, done + filled, device=images.device).clamp_(max=len(images) - 1)
            parts.append(model(images[places])[:rows])
            done += rows
        return torch.cat(parts) if parts else model(images)

    return scores


def defender_for(
    model: str | Path, data: Dataset, device: str | torch.device = "cpu", data_dir: str | Path | None = None
) -> Network:
    """Who defends the images of `data`: the plain network of a file or run folder, or, by the name
    `nearest-neighbour`, the training images of that data set, which are looked for in `data_dir`.
    """
    if str(model) == NEAREST_NEIGHBOUR:
        training = datasets.load(TRAINED_ON.get(data.name, data.name), "train", data_dir)
        return Network(NearestNeighbour.of(training, device), device)
    network, facts = load(model)
    for name, found, wanted in (
        ("images", facts.get("shape"), list(data.images.shape)),
        ("classes", facts.get("class_names"), list(data.classes)),
    ):
        if found != wanted:
            raise InputError(f"{model} was trained on other {name} than {data.name} has: {found}, not {wanted}")
    return PlainNetwork(network, device)
