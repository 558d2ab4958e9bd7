"""Elections of fixed masks: images a second, many at once and image by image; `make bench`.

Prints, for disjoint masks of a 28 x 28 image and for three partitions side by side, by each rule, how many rankings
become a winner and a radius per second of CPU time, and the ratio of the two ways, measured in one run. Bars, by the
default rule: 50,000 a second for 60 disjoint masks, 10,000 for 60 x 3. Set OPENBLAS_NUM_THREADS=1: the time of threads
that wait for each other counts too.

Then the shipped `mnist-lattice-28`, from images on the device to labels and radii in host memory: `Smoothed.certify`
beside the plain form, one copy at a time through the module and one election after the other; and the time of its
parts one after the other, which overlap in `certify`. Bar, on a GPU: 100,000 images a second.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.speed import synchronise, tiled
from sparsecert.certificates.adversary import PerturbedUnits
from sparsecert.certificates.plurality import first_choices
from sparsecert.counts import Int64
from sparsecert.procedures.exact import AT_ONCE, elect, require_fixed_masks
from sparsecert.registry import RULES
from sparsecert.runs import load_batch
from sparsecert.schemes import Lattice, Partition
from sparsecert.smoothed import Smoothed
from sparsecert.votes.copies import Copies
from sparsecert.votes.eval_mode import in_eval_mode
from sparsecert.votes.precision import autocast
from sparsecert.votes.voter import rank

CLASSES = 10
MANY, FEW = AT_ONCE, 256
SECONDS = 1.0  # each measurement, at least
SETS = {"28 x 1": Lattice(28, 28, 28), "60 x 1": Lattice(28, 28, 60), "60 x 3": Partition(784, 60, rounds=3)}
BARS = {"60 x 1": 50_000, "60 x 3": 10_000}
MODEL, GPU_BAR = "mnist-lattice-28", 100_000
REPEATS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--images", type=int, help="images to certify (default: 100000 on a GPU, else 100)")
    parser.add_argument("--plain", type=int, default=5, help="images that the plain form certifies")
    options = parser.parse_args()
    elections()
    device = torch.device(options.device)
    end_to_end(device, options.images or (100_000 if device.type == "cuda" else 100), options.plain)


def elections() -> None:
    """Rankings to winners and radii."""
    print(f"{platform.machine()}, one core (CPU time), numpy {np.__version__}; {CLASSES} classes, {AT_ONCE} at once")
    for name, scheme in SETS.items():
        adversary, ranks = PerturbedUnits(scheme.table), rankings(len(scheme.table))
        for rule in RULES:
            together = rate(lambda: elect(ranks[:MANY], rule, adversary), MANY)  # noqa: B023
            alone = rate(lambda: [RULES[rule].certify(one[None], adversary) for one in ranks[:FEW]], FEW)  # noqa: B023
            print(
                f"{name} masks, {rule}: {together:,.0f} images/s, image by image {alone:,.0f} images/s, "
                f"ratio {together / alone:.1f}{verdict(name, rule == scheme.rule, together)}",
                flush=True,
            )


def rankings(masks: int) -> npt.NDArray[np.int16]:
    """int16[MANY, masks, CLASSES]: each image leans to one class, some hardly and some strongly; seed 0."""
    chance = np.random.default_rng(0)
    scores = chance.normal(size=(MANY, masks, CLASSES)).astype(np.float32)
    scores[np.arange(MANY), :, chance.integers(CLASSES, size=MANY)] += chance.uniform(0, 2.5, (MANY, 1))
    return (-scores).argsort(axis=2).argsort(axis=2).astype(np.int16)


def rate(work: Callable[[], object], images: int) -> float:
    """Images per second of CPU time."""
    work()
    runs, began = 0, time.process_time()
    while (taken := time.process_time() - began) < SECONDS:
        work()
        runs += 1
    return runs * images / taken


def end_to_end(device: torch.device, images: int, few: int) -> None:
    """Images on the device to labels and radii in host memory; the digits of the sample, repeated."""
    smoothed = Smoothed.load(MODEL, device=device)
    inputs = load_batch(tiled(images), range(images)).to(device)
    gpu, part = device.type == "cuda", inputs[:few]
    name = torch.cuda.get_device_name(device) if gpu else f"{platform.machine()}, {torch.get_num_threads()} threads"
    print(f"{name}, torch {torch.__version__}, {smoothed.precision}, {MODEL}, {images:,} images on the device")

    def certified(inputs: torch.Tensor) -> tuple[Int64, Int64]:
        found = smoothed.certify(inputs)
        return found.labels, found.radii

    alike = np.equal(certified(part), one_by_one(smoothed, part)).all(axis=0)
    fast, slow = wall(lambda: certified(inputs), device), wall(lambda: one_by_one(smoothed, part), device)
    ratio = f"ratio {images / fast / (len(part) / slow):,.0f}{met(images / fast, GPU_BAR) if gpu else ''}"
    print(f"to labels and radii: {images / fast:,.0f} images/s, one by one {len(part) / slow:,.1f} images/s, {ratio}")
    print(f"median of {REPEATS} runs of {fast:.3f} s; alike one by one: {alike.sum()} of {len(part)} images")

    scheme, voter = require_fixed_masks(smoothed.scheme), smoothed.voter(inputs)
    masks, adversary = len(scheme.table), PerturbedUnits(scheme.table)
    copies = Copies(voter, inputs, range(len(inputs)))
    ranks = copies.begin_ranks(masks)()
    parts = {
        "inputs checked": wall(lambda: smoothed.check(inputs), device),
        "model checked and fused": wall(lambda: smoothed.voter(inputs), device),
        "votes": wall(lambda: copies.begin_ranks(masks)(), device),
        "first choices": wall(lambda: first_choices(ranks), device),
        "elections": wall(lambda: elect(ranks, scheme.rule, adversary), device),
    }
    print("one after the other: " + ", ".join(f"{what} {1e3 * taken:.1f} ms" for what, taken in parts.items()))


def one_by_one(smoothed: Smoothed, images: torch.Tensor) -> tuple[Int64, Int64]:
    """The plain form: one copy at a time through the module, and one election after the other."""
    scheme = require_fixed_masks(smoothed.scheme)
    masks, adversary, found = scheme.all_masks(images.device), PerturbedUnits(scheme.table), []
    with in_eval_mode(smoothed.model), torch.no_grad(), autocast(images.device, smoothed.precision):
        for image in images[:, None]:
            scores = torch.cat([smoothed.model(smoothed.encoding(image, mask)) for mask in masks[:, None]])
            found.append(RULES[scheme.rule].certify(rank(scores)[None].cpu().numpy(), adversary))
    labels, radii = zip(*found, strict=True)
    return np.concatenate(labels), np.concatenate(radii)


def wall(work: Callable[[], object], device: torch.device) -> float:
    """Seconds, the median of several runs after one to warm up."""
    times = []
    for _ in range(1 + REPEATS):
        synchronise(device)
        began = time.perf_counter()
        work()
        synchronise(device)
        times.append(time.perf_counter() - began)
    return statistics.median(times[1:])


def met(found: float, bar: int) -> str:
    return f" (bar {bar:,}: {'met' if found >= bar else 'MISSED'})"


def verdict(name: str, default: bool, found: float) -> str:
    if not default or name not in BARS:
        return ""
    return met(found, BARS[name])


if __name__ == "__main__":
    main()
