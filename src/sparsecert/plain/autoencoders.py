"""Variational autoencoders, one per class, as one grouped network: the generative half of analysis by synthesis.

Schott, Rauber, Bethge & Brendel, "Towards the First Adversarially Robust Neural Network Model on MNIST" (ICLR 2019).
"""

from __future__ import annotations

import torch
from torch import nn

from sparsecert.errors import InputError

LATENTS = 8  # per class
SIDE = 28
BETA = 1.0  # the weight of the prior against the squared error
DRAWN_PER_CANDIDATE = 10 / 9  # of so many draws from the prior the likeliest are kept


class Autoencoders(nn.Module):
    """An autoencoder with 8 latents for each class of 28 x 28 images in one channel, all of them side by side.

    Group c of every convolution belongs to class c, and batch norm treats each channel by itself, so each autoencoder
    computes and learns as if it were alone. `candidates`: float[n, 8], the n likeliest of 10/9 n draws from the prior
    N(0, I), the latents from which inference starts; drawn once, by the seed, and kept with the weights. `steps`, of
    inference. `binarized`: for inference on images thresholded at 0.5; the networks are the same.
    """

    candidates: torch.Tensor

    def __init__(
        self,
        channels: int = 1,
        classes: int = 10,
        candidates: int = 8_000,
        steps: int = 50,
        binarized: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if channels != 1:
            raise InputError(f"the autoencoders are for images of one channel, got {channels}")
        self.classes, self.steps, self.binarized = classes, steps, binarized
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.encoder = nn.Sequential(
                *self._convolution(1, 32, 5), *self._convolution(32, 32, 4, 2), *self._convolution(32, 64, 3, 2)
            )
            self.mean, self.log_variance = (
                nn.Conv2d(64 * classes, LATENTS * classes, 5, groups=classes) for _ in range(2)
            )
            self.decoder = nn.Sequential(
                *self._transposed(LATENTS, 32, 4), *self._transposed(32, 16, 5, 2), *self._transposed(16, 16, 5, 2),
                nn.ConvTranspose2d(16 * classes, classes, 4, groups=classes), nn.Sigmoid(),
            )  # fmt: skip
            drawn = torch.randn(round(candidates * DRAWN_PER_CANDIDATE), LATENTS)
        likeliest = drawn.square().sum(dim=1).argsort(stable=True)[:candidates]
        self.register_buffer("candidates", drawn[likeliest])

    def _convolution(self, channels: int, filters: int, kernel: int, stride: int = 1) -> tuple[nn.Module, ...]:
        groups = self.classes
        layer = nn.Conv2d(channels * groups, filters * groups, kernel, stride, groups=groups, bias=False)
        return layer, nn.BatchNorm2d(filters * groups), nn.ELU()

    def _transposed(self, channels: int, filters: int, kernel: int, stride: int = 1) -> tuple[nn.Module, ...]:
        groups = self.classes
        layer = nn.ConvTranspose2d(channels * groups, filters * groups, kernel, stride, groups=groups, bias=False)
        return layer, nn.BatchNorm2d(filters * groups), nn.ELU()

    def encode(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean and log-variance, float[b, classes, 8], of the latents of images[:, c] by the encoder of class c."""
        features, shape = self.encoder(images), (-1, self.classes, LATENTS)
        return self.mean(features).view(shape), self.log_variance(features).view(shape)

    def decode(self, latents: torch.Tensor) -> torch.Tensor:
        """Float[b, classes, 28, 28]: the images of latents[:, c] by the decoder of class c."""
        images: torch.Tensor = self.decoder(latents.reshape(len(latents), -1, 1, 1))
        return images

    def forward(self, images: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Reconstructions of float[b, classes, 28, 28], channel c an image of class c, and the loss float[b, classes].

        The latents are mean + standard deviation * noise. The loss is the squared error, summed over the pixels, plus
        beta times the Kullback-Leibler divergence of the latents' distribution from the prior.
        """
        mean, log_variance = self.encode(images)
        found = self.decode(mean + (log_variance / 2).exp() * noise)
        divergence = (mean.square() + log_variance.exp() - 1 - log_variance).sum(dim=2) / 2
        return found, (found - images).square().sum(dim=(2, 3)) + BETA * divergence
