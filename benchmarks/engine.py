"""The engine compared with a plain PyTorch implementation of the paper's procedure, in one process; `make bench`.

For the paper's networks (MNIST CNN at k = 45, CIFAR ResNet-18 at k = 75, ResNet-50 at 224 px at k = 1,000) prints the
ablated copies a second of each, and their ratio; the network's FLOP/s and their share of those of large matrix
products; where the time goes; and the share of votes that differ between fp32 and half precision on the same copies.
The MNIST weights are the shipped ones; the others are random, which affects the differing votes but not the time.

With --compiled, on a GPU, also the network alone in half precision, on batches of the engine's size: as the engine runs
it, by `torch.compile(mode="max-autotune")`, which takes minutes to compile, and as the plain module.
"""

from __future__ import annotations

import argparse
import copy
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import plain
from benchmarks.speed import matrix_rate, sample_images, seconds, synchronise
from sparsecert import models
from sparsecert.devices import native_precision
from sparsecert.encodings import NullChannels
from sparsecert.schemes import ESTIMATION, Uniform
from sparsecert.smoothed import Smoothed
from sparsecert.votes.batches import on_device
from sparsecert.votes.copies import Copies
from sparsecert.votes.engine import FusedScorer
from sparsecert.votes.eval_mode import in_eval_mode
from sparsecert.votes.precision import PRECISIONS
from sparsecert.votes.voter import Voter

SEED = 0


@dataclass(frozen=True)
class Case:
    """A network, its images, and how much of it is timed on a GPU and on a CPU."""

    name: str
    channels: int
    size: int
    keep: int
    classes: int
    batch: tuple[int, int]  # of the plain rendering, GPU and CPU
    copies: tuple[int, int]
    bar: float | None  # share of the matrix rate on a GPU

    def model(self) -> nn.Module:
        """The shipped weights for MNIST, otherwise random ones."""
        if self.name == "mnist-cnn":
            shipped = Smoothed.load("mnist-k45").model
            assert isinstance(shipped, nn.Module)
            return shipped
        torch.manual_seed(SEED)
        return models.build(self.name, 2 * self.channels, self.classes)

    def images(self, count: int) -> torch.Tensor:
        """Real digits for MNIST, otherwise noise."""
        if self.name == "mnist-cnn":
            return sample_images(count)
        return torch.rand(count, self.channels, self.size, self.size, generator=torch.Generator().manual_seed(SEED))


CASES = (
    Case("mnist-cnn", 1, 28, 45, 10, (1_000, 1_000), (4_400_000, 22_000), None),
    Case("resnet18-cifar", 3, 32, 75, 10, (1_000, 100), (330_000, 400), 0.45),
    Case("resnet50", 3, 224, 1_000, 1_000, (250, 10), (33_000, 40), 0.40),
)


@dataclass
class Stopwatch:
    """Adds up the time between calls, by stage."""

    device: torch.device
    times: dict[str, float] = field(default_factory=dict)
    last: float = 0.0

    def start(self) -> None:
        synchronise(self.device)
        self.last = time.perf_counter()

    def done(self, stage: str) -> None:
        """The stage that has just ended took the time since the last call."""
        synchronise(self.device)
        now = time.perf_counter()
        self.times[stage] = self.times.get(stage, 0.0) + now - self.last
        self.last = now

    def shares(self) -> str:
        """Of the time of all stages."""
        total = sum(self.times.values())
        return ", ".join(f"{stage} {taken / total:.1%}" for stage, taken in self.times.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--networks", nargs="+", default=[case.name for case in CASES], help="which of them")
    parser.add_argument("--batch", type=int, help="copies a batch of the plain rendering (default: a usual number)")
    parser.add_argument("--compiled", action="store_true", help="compare with torch.compile too, on a GPU")
    options = parser.parse_args()
    device = torch.device(options.device)
    gpu = device.type == "cuda"
    name = torch.cuda.get_device_name(device) if gpu else f"{platform.machine()}, {torch.get_num_threads()} threads"
    print(f"{name}, torch {torch.__version__}, seed {SEED}")
    half = native_precision(device)
    if gpu:
        print("cuDNN computes fp32 convolutions in TF32, which the rate of fp32 matrix products is not of")
    rates = {precision: matrix_rate(device, PRECISIONS[precision] or torch.float32) for precision in {"fp32", half}}
    for precision, rate in sorted(rates.items()):
        print(f"large matrix products, {precision}: {rate / 1e12:.2f} TFLOP/s")
    for case in CASES:
        if case.name in options.networks:
            compare(case, device, half, rates, options.batch)
            if options.compiled and gpu:
                compare_networks(case, device, half)


def compare(case: Case, device: torch.device, half: str, rates: dict[str, float], asked: int | None) -> None:
    """The plain rendering in fp32 and in the device's fastest precision, and the engine in both, one after another."""
    gpu = device.type == "cuda"
    model, images = case.model().to(device).eval(), case.images(4).to(device)
    flops = operations(model, images)
    print(f"\n{case.name}, k = {case.keep} of {case.size**2} pixels, {case.classes} classes, {flops / 1e6:.1f} MFLOP")
    copies, batch = case.copies[not gpu], asked or case.batch[not gpu]
    before: dict[str, float] = {}
    for precision in dict.fromkeys(("fp32", half)):
        rate = before[precision] = plain_rate(case, model, images, precision, copies // (4 if gpu else 1), batch)
        print_rate(f"plain, {precision}, batches of {batch}", rate, flops, rates[precision])
    for precision in dict.fromkeys(("fp32", half)):
        rate = engine_rate(case, model, images, precision, copies)
        share = print_rate(f"engine, {precision}", rate, flops, rates[precision])
        ratios = ", ".join(f"{rate / other:.2f} times the plain one in {kind}" for kind, other in before.items())
        bar = (
            f"; bar {case.bar:.0%}: {'met' if share >= case.bar else 'MISSED'}"
            if gpu and case.bar and precision == half
            else ""
        )
        print(f"  {ratios}{bar}")
    if half != "fp32":
        share, count = differing(case, model, images, half, 40_000 if gpu else min(copies, 4_000))
        print(f"{half} against fp32: {share:.3%} of {count:,} votes differ")


def compare_networks(case: Case, device: torch.device, half: str) -> None:
    """The network alone, on the copies of one pass: fused, compiled, and plain in channels-last memory."""
    dtype = PRECISIONS[half]
    model, images = case.model().to(device).eval(), case.images(4).to(device)
    voter = Voter(model, Uniform(case.size**2, case.keep), NullChannels(), images[:1], precision=half)
    score = voter._scores
    assert isinstance(score, FusedScorer)
    which = torch.arange(voter.rows, device=device) * len(images) // voter.rows
    module = copy.deepcopy(model).to(dtype=dtype, memory_format=torch.channels_last)  # type: ignore[call-overload]
    torch.compiler.reset()  # or it would expect shapes to go on changing
    compiled: Callable[[torch.Tensor], torch.Tensor] = torch.compile(module, mode="max-autotune", dynamic=False)
    with on_device(device), torch.no_grad():
        masks = voter.scheme.masks_at(SEED, which, torch.arange(voter.rows, device=device) + ESTIMATION)
        laid_out = score.copies(images, which, masks)
        plain_copies = NullChannels()(images[which], masks).to(dtype=dtype, memory_format=torch.channels_last)
        compiling = seconds(lambda: compiled(plain_copies), device, times=1, warm=0)
        times = {
            "fused": seconds(lambda: score.network(laid_out), device, times=5, warm=2),
            "compiled": seconds(lambda: compiled(plain_copies), device, times=5, warm=2),
            "plain module": seconds(lambda: module(plain_copies), device, times=5, warm=2),
        }
    rates = ", ".join(f"{name} {voter.rows / taken:,.0f}" for name, taken in times.items())
    print(f"network alone, {half}, {voter.rows:,} copies a pass, copies/s: {rates}")
    print(f"  fused / compiled {times['compiled'] / times['fused']:.2f}, after {compiling:.0f} s of compiling")


def print_rate(name: str, rate: float, flops: int, most: float) -> float:
    """Prints a rate, and returns its share of the matrix rate."""
    share = rate * flops / most
    print(f"{name}: {rate:,.0f} copies/s, {rate * flops / 1e12:.2f} TFLOP/s, {share:.1%} of the matrix rate")
    return share


def plain_rate(case: Case, model: nn.Module, images: torch.Tensor, precision: str, copies: int, batch: int) -> float:
    """Copies a second of the plain rendering; then, timed apart, where its time goes."""
    device, dtype = images.device, PRECISIONS[precision]
    generator = torch.Generator(device).manual_seed(SEED)

    def run(n: int, done: Callable[[str], None] = lambda stage: None) -> None:
        with torch.no_grad(), torch.autocast(device.type, dtype=dtype, enabled=dtype is not None):
            plain.count_votes(model, images[0], case.keep, n, case.classes, batch, generator, done)

    run(batch)
    taken = timed(lambda: run(copies), device)
    watch = Stopwatch(device)
    watch.start()
    run(min(copies, 4 * batch), watch.done)
    print(f"  {watch.shares()}")
    return copies / taken


def engine_rate(case: Case, model: nn.Module, images: torch.Tensor, precision: str, copies: int) -> float:
    """Copies a second of the engine; then, timed apart, where the time of a pass goes."""
    device = images.device
    voter = Voter(model, Uniform(case.size**2, case.keep), NullChannels(), images[:1], precision=precision)
    each = copies // len(images)

    def run() -> None:
        Copies(voter, images, range(len(images)), SEED).begin_count(ESTIMATION, 0, each)()

    Copies(voter, images[:1], [0], SEED).begin_count(ESTIMATION, 0, voter.rows)()
    taken = timed(run, device)
    form = "fused" if isinstance(voter._scores, FusedScorer) else "the model itself"
    print(f"  {form}, {voter.rows:,} copies a pass: {passed(voter, images)}")
    return each * len(images) / taken


def passed(voter: Voter, images: torch.Tensor) -> str:
    """The stages of one pass, each timed over several."""
    score, device = voter._scores, images.device
    which = torch.arange(voter.rows, device=device) * len(images) // voter.rows
    draws, live = torch.arange(voter.rows, device=device) + ESTIMATION, torch.ones_like(which)
    counts = torch.zeros(len(images) * (voter.classes + 1), dtype=torch.int64, device=device)

    def encoded(masks: torch.Tensor) -> torch.Tensor:
        if isinstance(score, FusedScorer):
            return score.copies(images, which, masks)
        return voter.encoding(images[which], masks)

    with on_device(device), in_eval_mode(voter.model), torch.no_grad():
        masks = voter.scheme.masks_at(SEED, which, draws)
        copies = encoded(masks)
        scores = (network := score.network if isinstance(score, FusedScorer) else voter.model)(copies)
        stages: dict[str, Callable[[], object]] = {
            "masks": lambda: voter.scheme.masks_at(SEED, which, draws),
            "encoding": lambda: encoded(masks),
            "model": lambda: network(copies),
            "counting": lambda: voter.tally(scores, which, live, counts),
        }
        watch = Stopwatch(device, {stage: seconds(work, device, times=5, warm=1) for stage, work in stages.items()})
    return watch.shares()


def differing(case: Case, model: nn.Module, images: torch.Tensor, precision: str, copies: int) -> tuple[float, int]:
    """The share of copies that the engine classifies otherwise in this precision than in fp32."""
    scheme, device = Uniform(case.size**2, case.keep), images.device
    votes = []
    rows = min(Voter(model, scheme, NullChannels(), images[:1]).rows, copies // len(images))
    for kind in ("fp32", precision):
        voter = Voter(model, scheme, NullChannels(), images[:1], precision=kind)
        with in_eval_mode(model), torch.no_grad():
            votes.append(
                [
                    voter.scores(images, which, scheme.masks_at(seed, examples, draws)).argmax(dim=1)
                    for which, seed, examples, draws in _chunks(len(images), copies // len(images), rows, device)
                ]
            )
    one, other = (torch.cat(parts) for parts in votes)
    return float((one != other).float().mean()), len(one)


def _chunks(
    images: int, draws: int, rows: int, device: torch.device
) -> list[tuple[torch.Tensor, int, torch.Tensor, torch.Tensor]]:
    chunks = []
    for image in range(images):
        for start in range(0, draws, rows):
            draw = torch.arange(start, min(start + rows, draws), device=device) + ESTIMATION
            chunks.append((torch.full_like(draw, image), SEED, torch.full_like(draw, image), draw))
    return chunks


def operations(model: nn.Module, images: torch.Tensor) -> int:
    """Floating-point operations of the network for one copy, by torch's own count."""
    copy = NullChannels()(images[:1], torch.ones(1, images[0, 0].numel(), dtype=torch.bool, device=images.device))
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(copy)
    return int(counter.get_total_flops())


def timed(work: Callable[[], object], device: torch.device) -> float:
    """The least of a few times, the device having nothing else to do."""
    return min(seconds(work, device, times=1, warm=0) for _ in range(3))


if __name__ == "__main__":
    main()
