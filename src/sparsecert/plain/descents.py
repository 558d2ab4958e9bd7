"""Descents: Adam on the latents of images and classes, towards what a decoder makes most like the image."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from sparsecert.devices import capture, tf32_products
from sparsecert.plain.autoencoders import BETA, LATENTS, SIDE
from sparsecert.plain.decoders import Decode, Decoders
from sparsecert.plain.lanes import Lanes
from sparsecert.plain.row_layers import RowLayer, decode_by_rows
from sparsecert.votes.batches import on_device

RATE, LARGEST_NORM = 0.05, 5.0
MOMENTS, EPS = (0.9, 0.999), 1e-8  # of Adam


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
    classes, 8], its latents. They start with the given ones. tf32: whether products may be in TF32 on a GPU. Such a
    descent may end elsewhere: Adam's first step depends on the signs of the slopes alone.
    """

    def __init__(
        self, steps: Steps, rows: torch.Tensor, least: torch.Tensor, latents: torch.Tensor, tf32: bool = False
    ) -> None:
        self.steps, self.rows, self.least, self.best, self.tf32 = steps, rows, least, latents, tf32
        self._latents, self._mean, self._square = latents.clone(), torch.zeros_like(latents), torch.zeros_like(latents)

    def advance(self, images: torch.Tensor, classes: torch.Tensor, first: int, last: int) -> None:
        """Takes the steps first + 1, ..., last of the pairs of an image and a class, which have taken `first`."""
        tables = self.least, self.best, self._latents, self._mean, self._square
        for lanes in Lanes.of(classes, on_gpu=bool(self.steps.decoders.by_rows)):
            image, own = images[lanes.items], classes[lanes.items]
            states = [table[image, own] for table in tables]
            with on_device(image.device), tf32_products(image.device, self.tf32):
                after = self.steps(lanes.networks, self.rows[image], states, first, last)
            for table, state in zip(tables, after, strict=True):
                table[image[lanes.real], own[lanes.real]] = state[lanes.real]


class Steps:
    """Takes steps of descents in lanes; on a GPU each as one launch (`StepGraph`)."""

    def __init__(self, decoders: Decoders) -> None:
        self.decoders, self.graphs = decoders, dict[tuple[int, int, str], StepGraph]()

    def __call__(
        self, networks: torch.Tensor, targets: torch.Tensor, states: Sequence[torch.Tensor], first: int, last: int
    ) -> Sequence[torch.Tensor]:
        """The states [rows, lanes, ...] after the steps first + 1, ..., last; the l of the latents reached counts too.

        They are: the least l, its latents, the latents, and the moments of their gradient.
        """
        if self.decoders.by_rows:
            rows, lanes, _ = targets.shape
            key = rows, lanes, torch.get_float32_matmul_precision()  # a graph keeps the precision of its capture
            if key not in self.graphs:
                alike = (graph for (_, width, _), graph in self.graphs.items() if width == lanes)
                self.graphs[key] = StepGraph(self.decoders.by_rows, rows, lanes, next(alike, None))
            return self.graphs[key](networks, targets, states, first, last)
        decode = self.decoders.of(networks)
        for step in range(first + 1, last + 1):
            states = _step(decode, targets, states, *_corrections(step))
        return _count(decode, targets, states)


class StepGraph:
    """One step of `rows` x `lanes` descents as a CUDA graph: launching its hundred small kernels one by one takes a GPU
    longer than running them.

    `layers` are of all networks. Whatever the step reads and writes stays in the same memory. Where it cannot be
    captured, it is taken as it is.
    `other`: one of as many lanes, whose memory for weights and intermediate results this one uses too.
    """

    def __init__(self, layers: Sequence[RowLayer], rows: int, lanes: int, other: StepGraph | None = None) -> None:
        like, self.every = layers[0].matrix, layers
        self.layers: list[RowLayer] = (
            [layer.lanes(like.new_zeros(lanes, dtype=torch.int64)) for layer in layers]
            if other is None
            else other.layers
        )
        self.decode = decode_by_rows(self.layers)
        self.targets, self.corrections = like.new_zeros(rows, lanes, SIDE * SIDE), like.new_ones(len(MOMENTS))
        self.states = [like.new_zeros(rows, lanes), *(like.new_zeros(rows, lanes, LATENTS) for _ in range(4))]
        self._step()  # as a warm-up; on no data yet
        self.graph: torch.cuda.CUDAGraph | None = capture(
            self._step, "a step of the descent", None if other is None else other.graph
        )

    def __call__(
        self, networks: torch.Tensor, targets: torch.Tensor, states: Sequence[torch.Tensor], first: int, last: int
    ) -> Sequence[torch.Tensor]:
        """As `Steps`; the next call overwrites the result."""
        for own, layer in zip(self.layers, self.every, strict=True):
            torch.index_select(layer.matrix, 0, networks, out=own.matrix)
            torch.index_select(layer.bias, 0, networks, out=own.bias)
        self.targets.copy_(targets)
        self._write(states)
        for step in range(first + 1, last + 1):
            for correction, now in zip(self.corrections, _corrections(step), strict=True):
                correction.fill_(now)
            self._step() if self.graph is None else self.graph.replay()
        return _count(self.decode, self.targets, self.states)

    def _step(self) -> None:
        self._write(_step(self.decode, self.targets, self.states, *self.corrections))

    def _write(self, states: Sequence[torch.Tensor]) -> None:
        for own, state in zip(self.states, states, strict=True):
            own.copy_(state)


Number = float | torch.Tensor


def _corrections(step: int) -> tuple[float, ...]:
    """What Adam divides the mean and the square by in that step."""
    return tuple(1 - moment**step for moment in MOMENTS)


def _step(
    decode: Decode, targets: torch.Tensor, states: Sequence[torch.Tensor], of_mean: Number, of_square: Number
) -> Sequence[torch.Tensor]:
    """The states after one step, with Adam's corrections for it."""
    least, best, latents, mean, square = states
    now, gradient = _gradient(decode, targets, latents)
    least, best = _lesser(now, latents, least, best)
    mean = torch.lerp(gradient, mean, MOMENTS[0])
    square = torch.lerp(gradient.square(), square, MOMENTS[1])
    size = (square / of_square).sqrt() + EPS
    return least, best, project(latents - RATE * mean / of_mean / size), mean, square


def _count(decode: Decode, targets: torch.Tensor, states: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """The states, the l of their latents counted too."""
    least, best, latents, *moments = states
    now = value(targets, decode(latents), latents)
    return *_lesser(now, latents, least, best), latents, *moments


def _lesser(
    now: torch.Tensor, latents: torch.Tensor, least: torch.Tensor, best: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.minimum(now, least), torch.where((now < least)[..., None], latents, best)


def _gradient(decode: Decode, targets: torch.Tensor, latents: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """l and its gradient with respect to the latents."""
    latents = latents.detach().requires_grad_()
    with torch.enable_grad():
        now = value(targets, decode(latents), latents)
        return now.detach(), torch.autograd.grad(now.sum(), latents)[0]
