"""One training run of the autoencoders of all classes, side by side."""

from __future__ import annotations

import math
from pathlib import Path

import torch

from sparsecert import modelfile
from sparsecert.errors import InputError
from sparsecert.plain.autoencoders import LATENTS, SIDE, Autoencoders
from sparsecert.plain.evaluation import accuracy
from sparsecert.plain.files import save
from sparsecert.plain.networks import THRESHOLD, build
from sparsecert.plain.run import PlainRun
from sparsecert.plain.synthesis import AnalysisBySynthesis
from sparsecert.plain.warps import UNIFORMS, warp
from sparsecert.schemes import AUGMENTATION
from sparsecert.schemes.philox import words
from sparsecert.training import generator

BINARIZED_NAME = "binarized.safetensors"


class AutoencoderRun(PlainRun):
    """A run in which every step takes `batch` images of each class, for the autoencoder of that class.

    Each class goes through its own images, in a new order whenever they are used up; an epoch is as many steps as the
    average class needs for all of its images. Order, distortions and noise depend on seed and step alone. The loss
    reported is the mean over images and classes, the accuracy the share of pixels whose reconstruction is on the same
    side of 0.5.

    Two files are written, of the same weights: model.safetensors and binarized.safetensors, for inference on images
    as they are and thresholded at 0.5, each with its accuracy.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        classes = len(self.data.classes)
        self.epoch_steps = -(-len(self.data) // (classes * self.recipe.batch))
        self.by_class = [torch.from_numpy((self.data.labels == number).nonzero()[0]) for number in range(classes)]
        if empty := [number for number, images in enumerate(self.by_class) if not len(images)]:
            raise InputError(f"every class must have a training image, class {empty[0]} of {classes} has none")
        places = self.epoch_steps * self.recipe.batch
        self.order = torch.zeros(places, classes, dtype=torch.int64, device=self.device)  # of this epoch

    @property
    def batch(self) -> int:
        """Images of each class in a step: always a full batch."""
        return self.recipe.batch

    def check_fit(self) -> None:
        if self.data.shape != (1, SIDE, SIDE):
            raise InputError(f"the autoencoders take images of shape (1, {SIDE}, {SIDE}), not {self.data.shape}")

    def epoch_order(self) -> torch.Tensor:
        """int64[places, classes]: the images of this epoch; column c cycles through the images of class c."""
        places = self.epoch_steps * self.recipe.batch
        first = self.epoch * places
        columns = []
        for number, images in enumerate(self.by_class):
            cycles = range(first // len(images), (first + places - 1) // len(images) + 1)
            shuffled = [
                images[torch.randperm(len(images), generator=generator(self.seed, f"order of {number}", cycle))]
                for cycle in cycles
            ]
            skipped = first - cycles[0] * len(images)
            columns.append(torch.cat(shuffled)[skipped : skipped + places])
        return torch.stack(columns, dim=1)

    def train_step(self, batch: int) -> None:
        """One step on `batch` images of each class."""
        first = self.device_step % self.epoch_steps * self.recipe.batch
        chosen = self.order[first + torch.arange(batch, device=self.device)]
        images, noise = self._drawn(chosen)
        found, losses = self.model(images, noise)
        self.optimizer.zero_grad(set_to_none=True)
        losses.mean(dim=0).sum().backward()  # no class's gradient depends on another
        self.optimizer.step()
        right = ((found.detach() > THRESHOLD) == (images > THRESHOLD)).float().mean(dim=(2, 3)).sum()
        self.sums += torch.stack((losses.detach().sum(), right, torch.full_like(right, losses.numel())))
        self.device_step += 1

    def _drawn(self, chosen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The chosen images [b, classes, 28, 28], lightly distorted, and normal noise for their latents."""
        examples = chosen.flatten()
        draws, count = AUGMENTATION + self.device_step.expand(len(examples)), UNIFORMS + 2 * LATENTS
        halves = words(self.seed, examples, draws, count // 2)
        uniforms = (torch.cat(halves, dim=1) >> 8).float() / (1 << 24)
        own, radii, angles = torch.split(uniforms, [UNIFORMS, LATENTS, LATENTS], dim=1)
        noise = (-2 * torch.log1p(-radii)).sqrt() * (2 * math.pi * angles).cos()  # Box and Muller
        images = warp(self.pixels[examples].float() / 255, own)
        return images.view(*chosen.shape, SIDE, SIDE), noise.view(*chosen.shape, LATENTS)

    def save_model(self, out: Path, half: bool = False) -> None:
        """Writes the finished autoencoders twice, for either inference, in full precision, and its accuracy."""
        for name, binarized in ((BINARIZED_NAME, True), (modelfile.MODEL_NAME, False)):
            architecture = {**self.architecture, "binarized": binarized}
            model = build(**architecture)
            assert isinstance(model, Autoencoders)
            model.load_state_dict(self.model.state_dict())
            right = accuracy(AnalysisBySynthesis(model, self.device), self.test, self.device)
            test = {"split": self.test.split, "images": len(self.test), "accuracy": right}
            save(out / name, model, architecture, self.facts(test))
