"""How the cost of certifying grows, one factor at a time; the source of `docs/scaling.md`.

From one baseline, the shipped MNIST network at k = 45 with n0 = n / 10: samples, images, retained units and classes;
then masks and encoding alone for more units; then the host's work per image. On a GPU in its fastest precision.
"""

from __future__ import annotations

import argparse
import platform
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.speed import sample_images, seconds, synchronise, tiled
from sparsecert import models
from sparsecert.certificates import CERTIFICATES, certify_anytime
from sparsecert.counts import Tally
from sparsecert.devices import native_precision
from sparsecert.encodings import NullChannels
from sparsecert.procedures.sequential import Sequential
from sparsecert.records import Record
from sparsecert.runs import certify_dataset
from sparsecert.schemes import ESTIMATION, Uniform
from sparsecert.smoothed import Smoothed
from sparsecert.votes.copies import Copies
from sparsecert.votes.engine.encode import copies as chosen_copies
from sparsecert.votes.engine.layout import layout_of
from sparsecert.votes.precision import PRECISIONS
from sparsecert.votes.voter import Voter

SEED, ALPHA = 0, 0.05


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    device = torch.device(options.device)
    gpu, precision = device.type == "cuda", native_precision(device)
    name = torch.cuda.get_device_name(device) if gpu else f"{platform.machine()}, {torch.get_num_threads()} threads"
    print(f"{name}, torch {torch.__version__}, {precision}, alpha {ALPHA}, seed {SEED}")
    smoothed = Smoothed.load("mnist-k45", device=device, precision=precision)
    samples(smoothed, 8_000_000 if gpu else 20_000)
    images(smoothed, (100, 1_000, 10_000) if gpu else (1, 4, 16))
    sequential(smoothed, 10_000 if gpu else 32)
    retained(smoothed, 4_000_000 if gpu else 10_000)
    classes(device, precision, 4_000_000 if gpu else 10_000)
    units(device, precision)
    host()


def samples(smoothed: Smoothed, copies: int) -> None:
    """The same number of copies, of ever fewer images."""
    voter = smoothed.voter(sample_images(1))
    for n in (1_000, 10_000, 100_000, 1_000_000):
        if n > copies:
            continue
        batch = sample_images(min(64, copies // n))
        taken = min(_timed(voter, batch, n) for _ in range(2))
        print(f"n = {n:>9,}: {len(batch) * n / taken:>12,.0f} copies/s, {taken / len(batch):.4g} s an image")


def images(smoothed: Smoothed, counts: tuple[int, ...]) -> None:
    """Whole runs at 1,000 + 10,000 samples, from images to records."""
    for count in counts:
        taken = _run(smoothed, count, None)
        print(f"{count:>9,} images: {count / taken:>8,.1f} images/s, {taken:.3g} s with the records")


def sequential(smoothed: Smoothed, count: int) -> None:
    """The same, with as many samples as each radius needs."""
    taken = _run(smoothed, count, Sequential())
    print(f"{count:>9,} images, sequential: {count / taken:>8,.1f} images/s, {taken:.3g} s with the records")


def retained(smoothed: Smoothed, copies: int) -> None:
    """More retained units: more random numbers to a mask."""
    for keep in (5, 45, 200, 392):
        voter = Voter(
            smoothed.model, Uniform(784, keep), smoothed.encoding, sample_images(1),
            device=smoothed.device, precision=smoothed.precision,
        )  # fmt: skip
        batch = sample_images(8)
        taken = min(_timed(voter, batch, copies // 8) for _ in range(2))
        print(f"k = {keep:>9,}: {copies / taken:>12,.0f} copies/s")


def classes(device: torch.device, precision: str, copies: int) -> None:
    """A wider last layer, more counts."""
    for count in (10, 100, 1_000):
        model = models.build("mnist-cnn", 2, count).to(device)
        voter = Voter(model, Uniform(784, 45), NullChannels(), sample_images(1), device=device, precision=precision)
        taken = min(_timed(voter, sample_images(8), copies // 8) for _ in range(2))
        print(f"{count:>5,} classes: {copies / taken:>12,.0f} copies/s")


def units(device: torch.device, precision: str) -> None:
    """Masks and encoded copies alone, of one colour, a fiftieth of the units retained."""
    for side in (28, 64, 128, 224, 388):
        drawing, encoding = (1e6 * taken for taken in _masks_and_encoding(side, device, precision))
        size = f"d = {side**2:>9,}, k = {side**2 // 50:>5,}"
        print(f"{size}: masks {drawing:.3g} us a copy, encoding {encoding:.3g} us a copy")


def _masks_and_encoding(side: int, device: torch.device, precision: str) -> tuple[float, float]:
    """Seconds per copy."""
    dtype, gpu = PRECISIONS[precision] or torch.float32, device.type == "cuda"
    scheme, rows = Uniform(side**2, side**2 // 50), 4_096 if gpu else 32
    image, which = torch.rand(1, 1, side, side, device=device), torch.zeros(rows, dtype=torch.int64, device=device)
    draws = torch.arange(rows, device=device) + ESTIMATION
    masks = scheme.masks_at(SEED, which, draws)
    layout = layout_of(NullChannels(), (1, side, side), 1, 0, 8)
    assert layout is not None
    table = layout.to(device)

    def encode() -> torch.Tensor:
        if gpu:
            return table.copies(image, which, masks, dtype)
        return chosen_copies(NullChannels(), image, which, masks, dtype)

    drawing = seconds(lambda: scheme.masks_at(SEED, which, draws), device, 3)
    return drawing / rows, seconds(encode, device, 3) / rows


def host() -> None:
    """Exact arithmetic and records, an image, by one core; every count is new, as in a long run's first images."""
    for count in (10, 1_000):
        votes = [Tally((9_000 - 3 * i, 400 + i, *[1] * (count - 3), 602 + 2 * i - count), 0) for i in range(300)]
        selection = Tally((950, 50, *[0] * (count - 2)))
        for name in ("two-sided", "one-sided"):
            _report(f"{count:>5,} classes, {name}", _certifying(selection, votes, name, ALPHA + 1e-9 * count))
        _report(f"{count:>5,} classes, at a stopping time", _certifying(selection, votes, None, ALPHA))
        lines = [Record(0, 0, tally, 0, 0.0, selection, 0.5, 0.5, 1) for tally in votes]
        began = time.perf_counter()
        size = sum(len(line.to_json()) for line in lines) / len(lines)
        _report(f"{count:>5,} classes, a line of {size:,.0f} bytes", (time.perf_counter() - began) / len(lines))


def _certifying(selection: Tally, votes: list[Tally], bound: str | None, alpha: float) -> float:
    """Seconds to certify one of these; at a stopping time without a bound's name."""
    scheme = Uniform(784, 45)
    began = time.perf_counter()
    for tally in votes:
        if bound is None:
            certify_anytime(selection, tally, scheme, alpha, "two-sided", 16_000)
        else:
            CERTIFICATES[bound].certify(selection, tally, scheme, alpha)
    return (time.perf_counter() - began) / len(votes)


def _report(what: str, taken: float) -> None:
    print(f"host, {what}: {1e6 * taken:.0f} us an image")


def _timed(voter: Voter, batch: torch.Tensor, n: int) -> float:
    device = voter.device
    Copies(voter, batch[:1], [0], SEED).begin_count(ESTIMATION, 0, min(n, voter.rows))()
    synchronise(device)
    began = time.perf_counter()
    Copies(voter, batch, range(len(batch)), SEED).begin_count(ESTIMATION, 0, n)()
    return time.perf_counter() - began


def _run(smoothed: Smoothed, count: int, sampling: Sequential | None) -> float:
    assert isinstance(smoothed.model, nn.Module)
    data = tiled(count)
    with tempfile.TemporaryDirectory() as folder:
        for out in ("warm", "timed"):
            limit = max(1, count // 10) if out == "warm" else None
            began = time.perf_counter()
            settings: dict[str, Any] = {"alpha": ALPHA, "seed": SEED, "procedure": sampling, "limit": limit}
            certify_dataset(smoothed, "mnist-k45", data, Path(folder) / out, **settings)
        return time.perf_counter() - began


if __name__ == "__main__":
    main()
