"""Taking training steps: one run after the other or, on a GPU, all runs at once in a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from sparsecert.training.run import TrainingRun


class Steppable(Protocol):
    """A run that can take steps, such as `TrainingRun`."""

    step: int

    @property
    def batch(self) -> int: ...

    def prepare(self) -> None: ...

    def train_step(self, batch: int) -> None: ...


StepFunction = Callable[[Sequence[TrainingRun]], None]
GraphKey = tuple[tuple[int, int], ...]  # (id, batch size) of each run


def step_function(runs: Sequence[TrainingRun]) -> StepFunction:
    """The fastest available way to step these runs."""
    devices, alone = {run.device for run in runs}, all(run.processes.size == 1 for run in runs)
    if len(devices) == 1 and runs[0].device.type == "cuda" and alone:
        return GraphedSteps(runs[0].device)
    return step_each


def step_each(runs: Sequence[Steppable]) -> None:
    """Steps the runs one after the other."""
    for run in runs:
        run.prepare()
        run.train_step(run.batch)
        run.step += 1


class GraphedSteps:
    """Steps several runs as one CUDA graph with a branch each, so that their small kernels overlap.

    For each combination of runs and batch sizes, the first step runs eagerly as a warm-up, the second is captured, and
    every later one is a single launch. fp32 matrix products run in TF32, as convolutions do by default; cuDNN
    benchmarks its convolution algorithms.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.graphs: dict[GraphKey, torch.cuda.CUDAGraph | None] = {}
        self.streams: dict[int, torch.cuda.Stream] = {}

    def __call__(self, runs: Sequence[Steppable]) -> None:
        precision, benchmark = torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.benchmark = True
        try:
            with torch.cuda.device(self.device):
                for run in runs:
                    run.prepare()
                self._step(tuple((id(run), run.batch) for run in runs), runs)
        finally:
            torch.set_float32_matmul_precision(precision)
            torch.backends.cudnn.benchmark = benchmark
        for run in runs:
            run.step += 1

    def _step(self, key: GraphKey, runs: Sequence[Steppable]) -> None:
        if key not in self.graphs:
            self._launch(runs)
            self.graphs[key] = None
        else:
            self._graph(key, runs).replay()

    def _graph(self, key: GraphKey, runs: Sequence[Steppable]) -> torch.cuda.CUDAGraph:
        graph = self.graphs[key]
        if graph is None:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self._launch(runs)
            self.graphs[key] = graph
        return graph

    def _launch(self, runs: Sequence[Steppable]) -> None:
        """Each run's step on its own stream, forked from and joined to the current one."""
        current = torch.cuda.current_stream(self.device)
        for run in runs:
            stream = self.streams.setdefault(id(run), torch.cuda.Stream(self.device))  # type: ignore[no-untyped-call]
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                run.train_step(run.batch)
        for run in runs:
            current.wait_stream(self.streams[id(run)])
