"""The speed of certifying and training, relative to the device's peak; `make bench`.

Prints, for the shipped MNIST model at k = 45 with 1,000 + 10,000 samples an image, records and certificates included:
images and samples a second, the network's FLOP/s and their share of those of large matrix products; where the time of a
forward pass goes; the rate by pairs beside the two-sided one, run by turns; and the time of the paper's 400 epochs of
training, for one k and for several trained at once.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from sparsecert import datasets
from sparsecert.datasets import ArrayImages, Dataset
from sparsecert.encodings import NullChannels
from sparsecert.procedures import Fixed
from sparsecert.runs import certify_dataset, load_batch
from sparsecert.schemes import ESTIMATION, Uniform
from sparsecert.smoothed import Smoothed
from sparsecert.training import TrainingRun
from sparsecert.training.batches import Batches
from sparsecert.training.cuda_graph import step_function
from sparsecert.training.recipes import RECIPES
from sparsecert.votes.engine import FusedScorer
from sparsecert.votes.precision import PRECISIONS

N0, N, ALPHA, SEED = 1_000, 10_000, 0.05, 0
MODEL, BAR = "mnist-k45", 1_500
TURNS, SLOWER = 3, 0.95  # of the pairwise bound: at most 5% slower
TRAINED = 60_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--precision", choices=["fp32", "bf16", "fp16"], help="default: bf16 on a GPU, else fp32")
    parser.add_argument("--images", type=int, help="images to certify (default: 5000 on a GPU, else 10)")
    parser.add_argument("--runs", type=int, default=21, help="models trained side by side on a GPU")
    options = parser.parse_args()
    device = torch.device(options.device)
    gpu = device.type == "cuda"
    precision = options.precision or ("bf16" if gpu else "fp32")
    name = torch.cuda.get_device_name(device) if gpu else f"{platform.machine()}, {torch.get_num_threads()} threads"
    print(f"{name}, torch {torch.__version__}, {precision}, {MODEL}, {N0} + {N} samples, alpha {ALPHA}, seed {SEED}")
    rate = matrix_rate(device, PRECISIONS[precision] or torch.float32)
    print(f"large matrix products, {precision}: {rate / 1e12:.2f} TFLOP/s")
    certifying(device, precision, options.images or (5_000 if gpu else 10), rate)
    by_pairs(device, precision, options.images or (5_000 if gpu else 10))
    training(device, options.runs if gpu else 1)


def matrix_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Floating-point operations a second in a large matrix product."""
    size = 8_192 if device.type == "cuda" else 2_048
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    return 2 * size**3 / seconds(lambda: a @ b, device)


def certifying(device: torch.device, precision: str, images: int, rate: float) -> None:
    """A whole run, from images to records; the first images warm up and are not timed."""
    smoothed = Smoothed.load(MODEL, device=device, precision=precision)
    data = tiled(images)
    with tempfile.TemporaryDirectory() as folder:
        settings: dict[str, Any] = {"n0": N0, "n": N, "alpha": ALPHA, "seed": SEED}
        certify_dataset(smoothed, MODEL, data, Path(folder) / "warm.jsonl", limit=max(1, images // 20), **settings)
        began = time.perf_counter()
        certify_dataset(smoothed, MODEL, data, Path(folder) / "certify.jsonl", **settings)
        taken = time.perf_counter() - began
    samples = images * (N0 + N) / taken
    flops = operations(smoothed) * samples
    met = f" (bar {BAR}: {'met' if images / taken >= BAR else 'MISSED'})" if device.type == "cuda" else ""
    print(
        f"certified {images:,} images in {taken:.2f} s: {images / taken:,.1f} images/s{met}, {samples:,.0f} samples/s"
    )
    share = f"{flops / 1e12:.2f} TFLOP/s, {flops / rate:.1%} of the matrix rate"
    print(f"{operations(smoothed) / 1e6:.2f} MFLOP a copy: {share}")
    passes(smoothed, device)


def by_pairs(device: torch.device, precision: str, images: int) -> None:
    """Whole runs by the pairwise bound and by the two-sided one, alternating; medians."""
    smoothed, bounds = Smoothed.load(MODEL, device=device, precision=precision), ("two-sided", "pairwise")
    data, times = tiled(images), {bound: list[float]() for bound in bounds}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(1 + TURNS):  # the first ones warm up
            for bound in bounds:
                out, began = Path(folder) / f"{bound}-{turn}.jsonl", time.perf_counter()
                certify_dataset(smoothed, MODEL, data, out, Fixed(N0, N, bound), alpha=ALPHA, seed=SEED)
                times[bound].append(time.perf_counter() - began)
    two_sided, pairwise = (images / statistics.median(times[bound][1:]) for bound in bounds)
    ratio = pairwise / two_sided
    met = f" (bar {SLOWER}: {'met' if ratio >= SLOWER else 'MISSED'})" if device.type == "cuda" else ""
    print(f"pairwise {pairwise:,.1f} images/s, two-sided {two_sided:,.1f} images/s by turns: ratio {ratio:.3f}{met}")


def passes(smoothed: Smoothed, device: torch.device) -> None:
    """Where the time of one pass of copies goes."""
    voter = smoothed.voter(sample_images(1))
    rows, score = voter.rows, voter._scores
    images = sample_images(64).to(device)
    which = torch.arange(rows, device=device) % len(images)
    draws = torch.arange(rows, device=device) + ESTIMATION
    with torch.no_grad():
        masks = smoothed.scheme.masks_at(SEED, which, draws)
        times = {"masks": seconds(lambda: smoothed.scheme.masks_at(SEED, which, draws), device)}
        if isinstance(score, FusedScorer):
            copies = score.copies(images, which, masks)
            times["encoding"] = seconds(lambda: score.copies(images, which, masks), device)
            times["network"] = seconds(lambda: score.network(copies), device)
        else:
            encoded = smoothed.encoding(images[which], masks)
            times["encoding"] = seconds(lambda: smoothed.encoding(images[which], masks), device)
            times["network"] = seconds(lambda: smoothed.model(encoded), device)
    shares = ", ".join(f"{stage} {taken / sum(times.values()):.1%}" for stage, taken in times.items())
    print(f"one pass of {rows:,} copies: {shares} of {1e3 * sum(times.values()):.2f} ms")


def training(device: torch.device, several: int) -> None:
    """The time of the paper's 400 epochs, from some steps after the first ones."""
    data, recipe = replace(tiled(TRAINED), split="train"), RECIPES["paper-mnist"]
    batches = Batches(data, recipe, SEED, device)
    steps = 400 if device.type == "cuda" else 10
    for count in dict.fromkeys((1, several)):
        runs = [
            TrainingRun(data, recipe, Uniform(784, 5 + 5 * i % 100), NullChannels(), SEED, device, batches)
            for i in range(count)
        ]
        take_step = step_function(runs)
        for _ in range(5):
            take_step(runs)
        per_step = seconds(lambda take=take_step, runs=runs: take(runs), device, steps)  # type: ignore[misc]
        whole = per_step * runs[0].epoch_steps * recipe.epochs / count
        print(f"training, {count} at once: {whole:,.0f} s for {recipe.epochs} epochs of each k")


def seconds(work: Callable[[], object], device: torch.device, times: int = 10, warm: int = 3) -> float:
    """Mean time of a call, after a few to warm up."""
    for _ in range(warm):
        work()
    synchronise(device)
    began = time.perf_counter()
    for _ in range(times):
        work()
    synchronise(device)
    return (time.perf_counter() - began) / times


def synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def operations(smoothed: Smoothed) -> int:
    """Floating-point operations of the network for one copy, by torch's own count."""
    copy = smoothed.encoding(sample_images(1), smoothed.scheme.masks(SEED, [0], [0])[0]).to(smoothed.device)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        smoothed.model(copy)  # type: ignore[arg-type,unused-ignore]
    return int(counter.get_total_flops())


def sample_images(count: int) -> torch.Tensor:
    """The first images of the sample."""
    return load_batch(datasets.load("mnist-sample"), list(range(count)))


def tiled(count: int) -> Dataset:
    """The sample, repeated to `count` images: the time does not depend on what is in them."""
    sample = datasets.load("mnist-sample")
    which = np.arange(count) % len(sample)
    return replace(sample, images=ArrayImages(sample.images.batch(which)), labels=sample.labels[which])


if __name__ == "__main__":
    main()
