"""The nearest-neighbour classifier."""

from __future__ import annotations

import torch

from sparsecert.datasets import ArrayImages, Dataset
from sparsecert.errors import InputError

IMAGES_AT_ONCE, TRAINING_AT_ONCE = 1024, 8192  # a block of distances takes 64 MiB


class NearestNeighbour:
    """Classifies an image as its nearest training image in L2, by exhaustive search.

    The score of a class is minus the distance to its nearest training image, in float64 (float32 on MPS, which lacks
    it); the first class wins a tie. The scores have gradients: those of the distances to the images found.
    """

    def __init__(self, images: torch.Tensor, labels: torch.Tensor, classes: int) -> None:
        """`images` in [0, 1] of any shape [n, ...], `labels` int64[n], on the device to compute on."""
        if len(images) != len(labels) or not len(images):
            raise InputError(f"labels must be one per training image, got {len(labels)} for {len(images)}")
        self.dtype = torch.float32 if images.device.type == "mps" else torch.float64
        self.shape, self.device = images.shape[1:], images.device
        rows = images.flatten(1).to(self.dtype)
        self.by_class = [rows[labels == number] for number in range(classes)]
        if missing := [number for number, part in enumerate(self.by_class) if not len(part)]:
            raise InputError(f"every class must have a training image, class {missing[0]} of {classes} has none")
        self.squares = [part.square().sum(dim=1) for part in self.by_class]

    @classmethod
    def from_dataset(cls, data: Dataset, device: str | torch.device = "cpu") -> NearestNeighbour:
        """The classifier by the images of a data set in memory."""
        if not isinstance(data.images, ArrayImages):
            raise InputError(f"the nearest neighbour needs a data set in memory, {data.name} is an image folder")
        images = torch.from_numpy(data.images.pixels).to(device).float() / 255
        return cls(images, torch.from_numpy(data.labels).to(device), len(data.classes))

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """Scores [b, classes] of images [b, ...]."""
        if images.shape[1:] != self.shape:
            raise InputError(f"images must be of shape {tuple(self.shape)}, got {tuple(images.shape[1:])}")
        rows = images.to(self.device).flatten(1).to(self.dtype)
        return torch.cat([self._scores(part) for part in torch.split(rows, IMAGES_AT_ONCE)])

    def _scores(self, rows: torch.Tensor) -> torch.Tensor:
        return torch.stack([-self._distances(rows, number) for number in range(len(self.by_class))], dim=1)

    def _distances(self, rows: torch.Tensor, number: int) -> torch.Tensor:
        """The distance of each row to its nearest training image of the class."""
        apart = rows - self.by_class[number][self._nearest(rows.detach(), number)]
        distances: torch.Tensor = torch.linalg.vector_norm(apart, dim=1)
        return distances

    def _nearest(self, rows: torch.Tensor, number: int) -> torch.Tensor:
        """int64[b]: the nearest image of the class, the first on a tie."""
        known, squares = self.by_class[number], self.squares[number]
        least = torch.full((len(rows),), torch.inf, dtype=self.dtype, device=self.device)
        nearest = torch.zeros(len(rows), dtype=torch.int64, device=self.device)
        for first in range(0, len(known), TRAINING_AT_ONCE):
            block = slice(first, first + TRAINING_AT_ONCE)
            apart = torch.addmm(
                squares[block], rows, known[block].T, alpha=-2
            )  # less |row|^2, which is the same to all
            found, places = apart.min(dim=1)
            nearest = torch.where(found < least, places + first, nearest)
            least = torch.minimum(found, least)
        return nearest
