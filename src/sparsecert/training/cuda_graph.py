"""How steps are taken: one run after the other, or on a GPU all at once by a captured graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from sparsecert.training.run import Run


class Steps(Protocol):
    """What is asked of a run whose steps are taken here; see `Run`."""

    step: int

    @property
    def batch(self) -> int:
        """How many inputs the next step takes."""

    def prepare(self) -> None:
        """What the next step needs of the host."""

    def take(self, batch: int) -> None:
        """The step, on the device alone."""


Stepper = Callable[[Sequence[Run]], None]
Kind = tuple[tuple[int, int], ...]  # of each run: which it is, its batch size


def stepper(runs: Sequence[Run]) -> Stepper:
    """The fastest way to step these runs that is there."""
    devices, alone = {run.device for run in runs}, all(run.team.size == 1 for run in runs)
    if len(devices) == 1 and runs[0].device.type == "cuda" and alone:
        return Captured(runs[0].device)
    return one_by_one


def one_by_one(runs: Sequence[Steps]) -> None:
    """A step of each run."""
    for run in runs:
        run.prepare()
        run.take(run.batch)
        run.step += 1


class Captured:
    """Steps of several runs as one CUDA graph, a branch each, so that small kernels of different runs overlap.

    The first step of a kind (these runs, batch sizes) is taken without a graph, which readies what the
    kernels need; the second is captured; every later one is a single launch. Matrix products of fp32 run in TF32, the
    type that convolutions have by default, and convolutions by the fastest algorithm, found by trying.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.graphs: dict[Kind, torch.cuda.CUDAGraph | None] = {}
        self.streams: dict[int, torch.cuda.Stream] = {}

    def __call__(self, runs: Sequence[Steps]) -> None:
        """A step of each run."""
        precision, tried = torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.benchmark = True
        try:
            with torch.cuda.device(self.device):
                for run in runs:
                    run.prepare()
                self._take(tuple((id(run), run.batch) for run in runs), runs)
        finally:
            torch.set_float32_matmul_precision(precision)
            torch.backends.cudnn.benchmark = tried
        for run in runs:
            run.step += 1

    def _take(self, kind: Kind, runs: Sequence[Steps]) -> None:
        if kind not in self.graphs:
            self._branches(runs)
            self.graphs[kind] = None
        else:
            self._graph(kind, runs).replay()

    def _graph(self, kind: Kind, runs: Sequence[Steps]) -> torch.cuda.CUDAGraph:
        graph = self.graphs[kind]
        if graph is None:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self._branches(runs)
            self.graphs[kind] = graph
        return graph

    def _branches(self, runs: Sequence[Steps]) -> None:
        """Each run's step on a stream of its own, begun after and joined by the current one."""
        current = torch.cuda.current_stream(self.device)
        for run in runs:
            stream = self.streams.setdefault(id(run), torch.cuda.Stream(self.device))  # type: ignore[no-untyped-call]
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                run.take(run.batch)
        for run in runs:
            current.wait_stream(self.streams[id(run)])
