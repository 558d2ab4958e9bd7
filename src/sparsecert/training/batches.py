"""Which inputs a training step sees."""

from __future__ import annotations

import hashlib

import torch

from sparsecert.datasets import Dataset
from sparsecert.datasets.dataset import ArrayImages
from sparsecert.datasets.folder import FolderImages
from sparsecert.errors import InputError
from sparsecert.training import augment
from sparsecert.training.recipes import Recipe


class Batches:
    """The order and the augmentation of each epoch, as pure functions of seed and epoch, and the inputs themselves.

    Images in memory move to the device; photographs in a folder come by way of `staging`. Runs on the same data, recipe
    and seed can share one.
    """

    def __init__(self, data: Dataset, recipe: Recipe, seed: int, device: torch.device) -> None:
        self.images, self.recipe, self.seed, self.device = data.images, recipe, seed, device
        folder = isinstance(data.images, FolderImages)
        if folder != (recipe.augment == "resized-crop-flip"):
            kind = "a data set in memory" if folder else "an image folder"
            raise InputError(f"recipe {recipe.name!r} (augment={recipe.augment}) needs {kind}, {data.name} is not one")
        pixels = data.images.pixels if isinstance(data.images, ArrayImages) else None
        self.pixels = None if pixels is None else torch.from_numpy(pixels).to(device)
        self.labels = torch.from_numpy(data.labels).to(device)

    def order(self, epoch: int) -> torch.Tensor:
        """A permutation of the inputs, drawn on the CPU so that it is the same for every device."""
        return torch.randperm(len(self.images), generator=generator(self.seed, "order", epoch))

    def moves(self, epoch: int) -> torch.Tensor | None:
        """How each image in memory is shifted and mirrored in this epoch; None where nothing is."""
        if self.recipe.augment != "crop-flip":
            return None
        return augment.moves(self.seed, torch.arange(len(self.images), device=self.device), epoch)

    def shown(self, chosen: torch.Tensor, moves: torch.Tensor | None) -> torch.Tensor:
        """The chosen images in memory, moved where that is asked for: uint8[b, c, h, w]."""
        assert self.pixels is not None
        return self.pixels[chosen] if moves is None else augment.moved(self.pixels, chosen, moves[chosen])


def generator(seed: int, purpose: str, number: int) -> torch.Generator:
    """A CPU generator that depends on these three alone."""
    digest = hashlib.sha256(f"{seed}/{purpose}/{number}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)
