"""The overhead of the vote loop over the model, and whether its memory grows with n; `make bench`.

Prints, for the paper's MNIST network at k = 45 on the CPU:
  - time in masks and in encoding over time in the model (bar: together at most 0.25);
  - peak memory of certifying with n = 100,000 over that with n = 1,000 (bar: at most 1.1).
"""

from __future__ import annotations

import platform
import resource
import statistics
import subprocess
import sys
import time

import torch

from sparsecert import models
from sparsecert.encodings import NullChannels
from sparsecert.schemes import ESTIMATION, Uniform
from sparsecert.smoothed import Smoothed
from sparsecert.votes.probe import probe

SCHEME = Uniform(units=784, keep=45)
TIME_BAR, MEMORY_BAR = 0.25, 1.1
BATCHES = 40
FEW, MANY = 1_000, 100_000


def main() -> None:
    if len(sys.argv) > 1:
        print(peak_memory(int(sys.argv[1])))
        return
    print(f"MNIST network, d = 784, k = 45, {torch.get_num_threads()} CPU threads, {platform.machine()}, seed 0")
    masks, encoding, rows = stage_times()
    print(
        f"{BATCHES} batches of {rows} copies, medians: masks {masks:.2%}, encoding {encoding:.2%} of the model's time"
    )
    show("time in masks and encoding / time in the model", masks + encoding, TIME_BAR)
    few, many = (measured_peak(n) for n in (FEW, MANY))
    print(f"peak memory: {few / 1024:.0f} MiB at n = {FEW:,}, {many / 1024:.0f} MiB at n = {MANY:,}")
    show(f"peak memory at n = {MANY:,} / at n = {FEW:,}", many / few, MEMORY_BAR)


def show(what: str, ratio: float, bar: float) -> None:
    print(f"{what}: {ratio:.3f} (bar {bar}: {'met' if ratio <= bar else 'MISSED'})")


def stage_times() -> tuple[float, float, int]:
    """Median time of masks and of encoding over that of the model, and the rows of a batch."""
    net, encoding = models.build("mnist-cnn", 2, 10).eval(), NullChannels()
    image = torch.rand(1, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    rows = probe(net, SCHEME, encoding, image)[1]
    examples, inputs = torch.zeros(rows, dtype=torch.int64), image.expand(rows, -1, -1, -1).contiguous()
    times: list[list[float]] = [[], [], []]
    with torch.no_grad():
        for batch in range(BATCHES + 5):
            marks = [time.perf_counter()]
            masks = SCHEME.masks_at(0, examples, torch.arange(rows) + ESTIMATION + batch * rows)
            marks.append(time.perf_counter())
            copies = encoding(inputs, masks)
            marks.append(time.perf_counter())
            net(copies)
            marks.append(time.perf_counter())
            if batch >= 5:  # the first ones warm up
                for stage in range(3):
                    times[stage].append(marks[stage + 1] - marks[stage])
    seconds = [statistics.median(stage) for stage in times]
    return seconds[0] / seconds[2], seconds[1] / seconds[2], rows


def measured_peak(n: int) -> int:
    """Peak memory, in KiB, of a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.overhead", str(n)], check=True, capture_output=True, text=True
    )
    return int(done.stdout)


def peak_memory(n: int) -> int:
    """Certifies one image with n copies and returns this process's peak memory in KiB."""
    image = torch.rand(1, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    Smoothed(models.build("mnist-cnn", 2, 10), SCHEME).certify(image, n0=1_000, n=n)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // 1024 if sys.platform == "darwin" else peak


if __name__ == "__main__":
    main()
