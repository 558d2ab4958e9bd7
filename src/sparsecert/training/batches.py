"""Which inputs a training step sees."""

from __future__ import annotations

import hashlib

import torch

from sparsecert.datasets import ArrayImages, Dataset
from sparsecert.datasets.folder import FolderImages
from sparsecert.errors import InputError
from sparsecert.training.augment import random_shifts, shift_and_flip
from sparsecert.training.recipe import REFLECTED, SHIFTED
from sparsecert.training.recipes import Recipe


class Batches:
    """The inputs, and their order and augmentation in each epoch as pure functions of seed and epoch.

    Images in memory are copied to the device once; those of a folder arrive through `prefetch`. Runs with the same
    data, recipe and seed can share one.
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
        """A permutation of the inputs, drawn on the CPU so that every device gets the same."""
        drawn = generator(self.seed, "order", self.recipe.data_epoch(epoch))
        return torch.randperm(len(self.images), generator=drawn)

    def shifts(self, epoch: int) -> torch.Tensor | None:
        """The epoch's shift and flip of each image in memory; None without that augmentation."""
        if (reach := SHIFTED.get(self.recipe.augment)) is None:
            return None
        everyone = torch.arange(len(self.images), device=self.device)
        return random_shifts(self.seed, everyone, self.recipe.data_epoch(epoch), reach)

    def augmented(self, chosen: torch.Tensor, shifts: torch.Tensor | None) -> torch.Tensor:
        """The chosen images in memory, augmented: uint8[b, c, h, w]."""
        assert self.pixels is not None
        if shifts is None:
            return self.pixels[chosen]
        return shift_and_flip(self.pixels, chosen, shifts[chosen], reflected=self.recipe.augment == REFLECTED)


def generator(seed: int, purpose: str, number: int) -> torch.Generator:
    """A CPU generator that depends on these three alone."""
    digest = hashlib.sha256(f"{seed}/{purpose}/{number}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)
