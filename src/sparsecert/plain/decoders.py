"""The decoders of all classes for inference: each for any number of images, and descents towards given ones."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch.nn.functional import conv_transpose2d, elu

from sparsecert.devices import tf32_products
from sparsecert.plain.autoencoders import BETA, Autoencoders
from sparsecert.plain.lanes import Lanes
from sparsecert.plain.row_layers import RowLayer, decode_by_rows

Decode = Callable[[torch.Tensor], torch.Tensor]

RATE, LARGEST_NORM = 0.05, 5.0
MOMENTS, EPS = (0.9, 0.999), 1e-8  # of Adam


def is_gpu(device: torch.device) -> bool:
    """Whether launching work costs the device more than doing a little of it."""
    return device.type == "cuda"


class Decoders:
    """The decoders of `Autoencoders` in eval mode, batch norm folded into their convolutions.

    cuDNN is slow at transposed convolutions of so few channels in so many groups: a GPU gets them as products of
    matrices instead, row of pixels by row of pixels (see `RowLayer`).
    """

    def __init__(self, autoencoders: Autoencoders, device: torch.device) -> None:
        groups, parts = autoencoders.classes, list(autoencoders.decoder)
        self.layers: list[tuple[torch.Tensor, torch.Tensor, int]] = []  # weights and bias by class, stride
        for layer, after in pairwise(parts):
            if not isinstance(layer, torch.nn.ConvTranspose2d):
                continue
            weight = layer.weight.detach().view(groups, -1, *layer.weight.shape[1:])  # by class, in, out, kernel
            if isinstance(after, torch.nn.BatchNorm2d):
                scale, bias = _affine(after)
                weight = weight * scale.view(groups, 1, -1, 1, 1)
            else:
                assert layer.bias is not None
                bias = layer.bias.detach()
            self.layers.append((weight.to(device), bias.view(groups, -1).to(device), layer.stride[0]))
        self.by_rows: list[RowLayer] = []
        for weight, bias, stride in self.layers if is_gpu(device) else ():
            self.by_rows.append(RowLayer.of(weight, bias, stride, self.by_rows[-1].width if self.by_rows else 1))

    def __call__(self, latents: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        """Float[rows, lanes, 784]: the images of latents [rows, lanes, 8], of lane j by the decoder of classes[j]."""
        return self.of(classes)(latents)

    def of(self, classes: torch.Tensor) -> Decode:
        """The decoders of these classes, lane by lane, as a function of the latents."""
        if self.by_rows:
            return decode_by_rows([layer.lanes(classes) for layer in self.by_rows])
        layers = [
            (weight[classes].flatten(0, 1), bias[classes].flatten(), stride) for weight, bias, stride in self.layers
        ]

        def decode(latents: torch.Tensor) -> torch.Tensor:
            values = latents.reshape(len(latents), -1, 1, 1)
            for number, (weight, bias, stride) in enumerate(layers):
                values = elu(values) if number else values
                values = conv_transpose2d(values, weight, bias, stride, groups=len(classes))
            return values.sigmoid().reshape(*latents.shape[:2], -1)

        return decode


def _affine(norm: torch.nn.BatchNorm2d) -> tuple[torch.Tensor, torch.Tensor]:
    """Batch norm in eval mode as a scale and a shift of each channel."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = norm.weight.detach() / (norm.running_var + norm.eps).sqrt()
    return scale, norm.bias.detach() - norm.running_mean * scale


def value(targets: torch.Tensor, found: torch.Tensor, latents: torch.Tensor) -> torch.Tensor:
    """l = (|x - x'|^2 + beta / 2 |z|^2) / 784 of images x' = `found` [..., 784], made of latents z [..., 8]."""
    error, prior = (targets - found).square().sum(dim=-1), latents.square().sum(dim=-1)
    return (error + BETA / 2 * prior) / targets.shape[-1]


def project(latents: torch.Tensor) -> torch.Tensor:
    """The nearest latents of norm 5 at most."""
    norms = torch.linalg.vector_norm(latents, dim=-1, keepdim=True)
    projected: torch.Tensor = latents * (LARGEST_NORM / norms.clamp(min=LARGEST_NORM))
    return projected


class Descents:
    """Adam on the latents of every image and class, to lessen l: each pair as far as it is asked for.

    rows: the images, float[b, 784]. least: float[b, classes], the least l of each pair so far, and best: float[b,
    classes, 8], its latents. They start with the given ones.
    """

    def __init__(self, decoders: Decoders, rows: torch.Tensor, least: torch.Tensor, latents: torch.Tensor) -> None:
        self.decoders, self.rows, self.least, self.best = decoders, rows, least, latents
        self._latents, self._mean, self._square = latents.clone(), torch.zeros_like(latents), torch.zeros_like(latents)

    def advance(self, images: torch.Tensor, classes: torch.Tensor, first: int, last: int) -> None:
        """Takes the steps first + 1, ..., last of the pairs of an image and a class, which have taken `first`."""
        tables = self.least, self.best, self._latents, self._mean, self._square
        for lanes in Lanes.of(classes):
            image, own = images[lanes.items], classes[lanes.items]
            states = [table[image, own] for table in tables]
            with tf32_products(image.device):
                states = _steps(self.decoders.of(lanes.networks), self.rows[image], states, first, last)
            for table, state in zip(tables, states, strict=True):
                table[image[lanes.real], own[lanes.real]] = state[lanes.real]


def _steps(
    decode: Decode, targets: torch.Tensor, states: list[torch.Tensor], first: int, last: int
) -> list[torch.Tensor]:
    """The states [rows, lanes, ...] after the steps; the l of the latents reached counts too."""
    least, best, latents, mean, square = states
    for step in range(first + 1, last + 1):
        now, gradient = _gradient(decode, targets, latents)
        least, best = torch.minimum(now, least), torch.where((now < least)[..., None], latents, best)
        mean = torch.lerp(gradient, mean, MOMENTS[0])
        square = torch.lerp(gradient.square(), square, MOMENTS[1])
        size = (square / (1 - MOMENTS[1] ** step)).sqrt() + EPS
        latents = project(latents - RATE * mean / (1 - MOMENTS[0] ** step) / size)
    now = value(targets, decode(latents), latents)
    least, best = torch.minimum(now, least), torch.where((now < least)[..., None], latents, best)
    return [least, best, latents, mean, square]


def _gradient(decode: Decode, targets: torch.Tensor, latents: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """l and its gradient with respect to the latents."""
    latents = latents.detach().requires_grad_()
    with torch.enable_grad():
        now = value(targets, decode(latents), latents)
        return now.detach(), torch.autograd.grad(now.sum(), latents)[0]
