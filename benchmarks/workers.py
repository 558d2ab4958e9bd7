"""How a run scales with the workers of a Ray cluster on this machine; needs the extra `ray`.

Certifies the same images without Ray and with 1, 2, ... workers of one CPU each, up to the number of cores, and prints
images a second, the ratio to one worker, and the time to the first results (workers start and load the model).
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from pathlib import Path

import torch

from benchmarks.speed import tiled
from sparsecert.devices import native_precision
from sparsecert.runs import Cluster, certify_dataset
from sparsecert.smoothed import Smoothed

N0, N, ALPHA, SEED = 100, 1_000, 0.05, 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=256)
    options = parser.parse_args()
    torch.set_num_threads(1)
    precision = native_precision(torch.device("cpu"))
    print(f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}, {precision}, mnist-k45")
    print(f"{options.images} images, n0 = {N0}, n = {N}, alpha {ALPHA}, seed {SEED}, one thread a worker")
    smoothed = Smoothed.load("mnist-k45", precision=precision)
    alone, _ = timed(smoothed, options.images, None)
    print(f"without Ray: {alone:.2f} images/s")
    rates: list[float] = []
    for workers in range(1, (os.cpu_count() or 1) + 1):
        rate, before = timed(smoothed, options.images, Cluster("auto", workers))
        rates.append(rate)
        ratio = f"{rate / rates[0]:.2f} times one worker, {rate / alone:.2f} times without Ray"
        print(f"{workers} workers: {rate:.2f} images/s, {ratio}; first results after {before:.1f} s")


def timed(smoothed: Smoothed, images: int, cluster: Cluster | None) -> tuple[float, float]:
    """Images a second after the first results, and the seconds until these."""
    began = time.perf_counter()
    seen: list[tuple[int, float]] = []

    def on_progress(inputs: int, copies: int) -> None:
        if inputs:
            seen.append((inputs, time.perf_counter()))

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "certify.jsonl"
        certify_dataset(
            smoothed, "mnist-k45", tiled(images), out,
            n0=N0, n=N, alpha=ALPHA, seed=SEED, cluster=cluster, on_progress=on_progress,
        )  # fmt: skip
    (_, first), (_, last) = seen[0], seen[-1]
    return sum(inputs for inputs, _ in seen[1:]) / (last - first), first - began


if __name__ == "__main__":
    main()
