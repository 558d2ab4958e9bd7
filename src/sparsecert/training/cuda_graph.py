"""Taking training steps: one run after the other or, on a GPU, all runs at once in a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from sparsecert.devices import capture, tf32_products
from sparsecert.training.schedule import Run

StepFunction = Callable[[Sequence[Run]], None]
GraphKey = tuple[tuple[int, int, int], ...]  # (id, phase, batch size) of each run


def step_function(runs: Sequence[Run]) -> StepFunction:
    """The fastest available way to step these runs."""
    devices, alone = {run.device for run in runs}, all(run.processes.size == 1 for run in runs)
    if len(devices) == 1 and runs[0].device.type == "cuda" and alone:
        return GraphedSteps(runs[0].device)
    return step_each


def step_each(runs: Sequence[Run]) -> None:
    """Steps the runs one after the other."""
    for run in runs:
        run.prepare()
        run.train_step(run.batch)
        run.step += 1


class GraphedSteps:
    """Steps several runs as one CUDA graph with a branch each, so that their small kernels overlap.

    For each combination of runs, phases and batch sizes, the first step runs eagerly as a warm-up, the second is
    captured, and every later one is a single launch. fp32 matrix products run in TF32, as convolutions do by default;
    cuDNN benchmarks its convolution algorithms. Where capture fails, every step runs eagerly.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.graphs: dict[GraphKey, torch.cuda.CUDAGraph | None] = {}
        self.streams: dict[int, torch.cuda.Stream] = {}
        self.captures = True  # until a capture fails

    def __call__(self, runs: Sequence[Run]) -> None:
        benchmark, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, True
        try:
            with tf32_products(self.device), torch.cuda.device(self.device):
                for run in runs:
                    run.prepare()
                self._step(tuple((id(run), run.phase, run.batch) for run in runs), runs)
        finally:
            torch.backends.cudnn.benchmark = benchmark
        for run in runs:
            run.step += 1

    def _step(self, key: GraphKey, runs: Sequence[Run]) -> None:
        graph = self.graphs.get(key)
        if graph is None and key in self.graphs and self.captures:
            graph = self.graphs[key] = self._captured(runs)
        if graph is None:
            self._launch(runs)
            self.graphs.setdefault(key, None)
        else:
            graph.replay()

    def _captured(self, runs: Sequence[Run]) -> torch.cuda.CUDAGraph | None:
        """The graph of a step; None where capture fails."""
        graph = capture(lambda: self._launch(runs), "a step")
        if graph is None:
            self.captures = False
            self.streams.clear()
        return graph

    def _launch(self, runs: Sequence[Run]) -> None:
        """Each run's step on its own stream, forked from and joined to the current one."""
        current = torch.cuda.current_stream(self.device)
        for run in runs:
            stream = self.streams.setdefault(id(run), torch.cuda.Stream(self.device))  # type: ignore[no-untyped-call]
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                run.train_step(run.batch)
        for run in runs:
            current.wait_stream(self.streams[id(run)])
