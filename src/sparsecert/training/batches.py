"""Which inputs a training step sees."""

from __future__ import annotations

import hashlib

import torch

from sparsecert.augment import crop_flip
from sparsecert.datasets import Dataset
from sparsecert.datasets.dataset import ArrayImages
from sparsecert.datasets.folder import FolderImages
from sparsecert.errors import InputError
from sparsecert.recipes import Recipe


class Batches:
    """The inputs of each step, as a pure function of seed, epoch and step; a data set in memory moves to the device.

    Runs on the same data, recipe and seed can share one.
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
        self._order: tuple[int, torch.Tensor] | None = None

    @property
    def on_device(self) -> bool:
        """Whether a step's inputs need nothing of the host: then steps can be captured and replayed."""
        return self.pixels is not None and self.recipe.augment == "none"

    def order(self, epoch: int) -> torch.Tensor:
        """A permutation of the inputs, drawn on the CPU so that it is the same for every device."""
        if self._order is None or self._order[0] != epoch:
            order = torch.randperm(len(self.images), generator=generator(self.seed, "order", epoch))
            self._order = epoch, order.to(self.device)
        return self._order[1]

    def inputs(self, chosen: torch.Tensor, epoch: int, step: int) -> torch.Tensor:
        """Float[b, c, h, w] in [0, 1], augmented."""
        if isinstance(self.images, FolderImages):
            crops = self.images.random_crops(chosen.tolist(), self.seed, epoch)
            return torch.from_numpy(crops).to(self.device).float() / 255
        assert self.pixels is not None
        inputs = self.pixels[chosen].float() / 255
        if self.recipe.augment == "crop-flip":
            inputs = crop_flip(inputs, generator(self.seed, "augment", step))
        return inputs


def generator(seed: int, purpose: str, number: int) -> torch.Generator:
    """A CPU generator that depends on these three alone."""
    digest = hashlib.sha256(f"{seed}/{purpose}/{number}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)
