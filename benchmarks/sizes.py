"""Whether memory stays bounded as a run grows; `make bench`.

Certifies, each in its own process, a small run and one that is larger in one respect: samples, images, units with
classes. Prints the peak memory of both (of the process and, on a GPU, of its tensors), their ratio, and the time. The
networks are small and random: masks, counts, records and report are what is measured.
"""

from __future__ import annotations

import argparse
import hashlib
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from sparsecert import records
from sparsecert.datasets import Dataset
from sparsecert.reports import summarise
from sparsecert.runs import certify_dataset
from sparsecert.schemes import Uniform
from sparsecert.smoothed import Smoothed

ALPHA, SEED, BAR = 0.05, 0, 1.1


@dataclass(frozen=True)
class Size:
    """The size of a run."""

    images: int
    n: int
    shape: tuple[int, int, int] = (1, 8, 8)
    keep: int = 12
    classes: int = 10

    def __str__(self) -> str:
        units = self.shape[1] * self.shape[2]
        return f"{self.images:,} images, n = {self.n:,}, d = {units:,}, k = {self.keep:,}, {self.classes:,} classes"


LARGE = (1, 224, 672)  # 150,528 units
IMAGES = ((Size(100, 10), Size(100_000, 10)), (Size(128, 10, LARGE, 500, 1_000), Size(1_024, 10, LARGE, 500, 1_000)))
SAMPLES = {  # the smaller of two runs fills a pass of the device
    "cpu": (
        (Size(1, 1_000), Size(1, 1_000_000)),
        (Size(1, 100, LARGE, 2_000, 1_000), Size(1, 10_000, LARGE, 2_000, 1_000)),
    ),
    "cuda": (
        (Size(1, 100_000), Size(1, 1_000_000)),
        (Size(1, 50_000, LARGE, 2_000, 1_000), Size(1, 500_000, LARGE, 2_000, 1_000)),
    ),
}


@dataclass(frozen=True)
class Noise:
    """Images of noise, each made when it is read: a data set of any length that takes no memory."""

    shape: tuple[int, ...]
    count: int

    def __len__(self) -> int:
        return self.count

    def batch(self, indices: Sequence[int] | NDArray[np.int64]) -> NDArray[np.uint8]:
        """The images at these places."""
        made = [np.random.default_rng(int(i)).integers(0, 256, self.shape, dtype=np.uint8) for i in indices]
        return np.stack(made)

    def fingerprint(self) -> str:
        """Of the shape and the number of images, which decide them."""
        return hashlib.sha256(repr((self.shape, self.count)).encode()).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--one", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(*certified(pairs(options.device)[options.one[0]][options.one[1]], options.device))
        return
    print(f"{options.device}, torch {torch.__version__}, n0 = n / 10, alpha {ALPHA}, seed {SEED}")
    for number, pair in enumerate(pairs(options.device)):
        found = [measured(number, place, options.device) for place in range(2)]
        for size, (peak, tensors, taken) in zip(pair, found, strict=True):
            on_gpu = f", tensors on the GPU {tensors / 2**20:,.0f} MiB" if tensors else ""
            print(f"{size}: peak {peak / 2**10:,.0f} MiB{on_gpu}, {taken:.1f} s")
        ratio = max(found[1][place] / found[0][place] for place in range(2) if found[0][place])
        print(f"  ratio {ratio:.3f} (bar {BAR}: {'met' if ratio <= BAR else 'MISSED'})")


def pairs(device: str) -> tuple[tuple[Size, Size], ...]:
    """A small run and a large one, several times."""
    return (*SAMPLES["cuda" if device.startswith("cuda") else "cpu"], *IMAGES)


def measured(pair: int, place: int, device: str) -> tuple[int, int, float]:
    """Peak memory of a process of its own in KiB, of its tensors on the GPU in bytes, and its seconds."""
    command = [sys.executable, "-m", "benchmarks.sizes", "--device", device, "--one", str(pair), str(place)]
    peak, tensors, taken = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return int(peak), int(tensors), float(taken)


def certified(size: Size, device: str) -> tuple[int, int, float]:
    """Certifies, records and summarises."""
    smoothed = Smoothed(network(size).to(device), Uniform(size.shape[1] * size.shape[2], size.keep))
    classes = tuple(str(label) for label in range(size.classes))
    labels = np.arange(size.images) % size.classes
    data = Dataset("noise", "test", Noise(size.shape, size.images), labels, classes, (0.5,), (0.25,))
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        model, out = Path(folder) / "model.safetensors", Path(folder) / "certify.jsonl"
        smoothed.save(model)
        certify_dataset(smoothed, model, data, out, n0=max(1, size.n // 10), n=size.n, alpha=ALPHA, seed=SEED)
        summarise(records.read(out))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tensors = torch.cuda.max_memory_allocated() if device.startswith("cuda") else 0
    return peak // 1024 if sys.platform == "darwin" else peak, tensors, time.perf_counter() - began


def network(size: Size) -> nn.Module:
    """A convolution and a linear layer."""
    torch.manual_seed(SEED)
    return nn.Sequential(
        nn.Conv2d(2, 8, kernel_size=4, stride=4), nn.ReLU(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, size.classes),
    )  # fmt: skip


if __name__ == "__main__":
    main()
