"""The throughput of an image folder in images a second, and how many workers keep a GPU busy.

Streams random resized crops (training) and centre crops (certifying) of the same files with one worker process and with
as many as there are CPUs, at most 16, and searches for bad files likewise. Prints images a second after the first
batch, in total and per worker, and the ratio to one worker. With `--needed`, prints how many workers training at that
rate takes. The files are read once beforehand, so they come from memory: disks are not measured.

Imagenette as it is fetched is small (224 x 224); `--enlarged 500x375` measures copies of ImageNet's usual size.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import PIL
from PIL import Image

from sparsecert import datasets
from sparsecert.datasets.bad_files import find_bad_files
from sparsecert.datasets.folder import FolderImages
from sparsecert.datasets.stream import Request, Stream
from sparsecert.datasets.views import CentreCrop, RandomCrop, View
from sparsecert.datasets.workers import default_workers
from sparsecert.errors import InputError

FILES = 2_000  # different ones, at most; they come round again
VIEWS: dict[str, View] = {"random crops": RandomCrop(0, 0), "centre crops": CentreCrop()}
SEARCH = "bad files sought"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="imagenette")
    parser.add_argument("--data-dir")
    parser.add_argument("--images", type=int, default=2_048, help="for each worker, in batches of --batch")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--workers", type=int, default=default_workers(), help="the most to try")
    parser.add_argument("--needed", type=float, metavar="RATE", help="images a second that training consumes")
    parser.add_argument("--enlarged", metavar="WIDTHxHEIGHT", help="measure copies of this size")
    options = parser.parse_args()
    data = datasets.load(options.data, "train", options.data_dir)
    if not isinstance(data.images, FolderImages):
        raise InputError(f"{options.data} is no image folder")
    chosen = FolderImages(data.images.root, tuple(data.images.files[i] for i in data.spaced_indices(FILES)))
    with enlarged(chosen, options.enlarged) as images:
        print(f"{platform.machine()}, {default_workers()} CPUs to use of {os.cpu_count()}, Pillow {PIL.__version__}")
        print(describe(options.data, images))
        print(f"batches of {options.batch}, {options.images} images a worker, seed 0")
        for name, view in VIEWS.items():
            report(
                name, {n: stream_rates(images, view, n, options) for n in sorted({1, options.workers})}, options.needed
            )
        report(SEARCH, {n: bad_file_rates(images, n) for n in sorted({1, options.workers})}, None)


@contextmanager
def enlarged(images: FolderImages, size: str | None) -> Iterator[FolderImages]:
    """The images, or copies of them as JPEGs of another size."""
    if size is None:
        yield images
        return
    width, height = map(int, size.split("x"))
    with tempfile.TemporaryDirectory() as folder:
        for number, file in enumerate(images.files):
            with Image.open(images.root / file) as image:
                copy = image.convert("RGB").resize((width, height), Image.Resampling.BICUBIC)
            copy.save(Path(folder) / f"{number}.jpg", quality=95)
        yield FolderImages(Path(folder), tuple(f"{number}.jpg" for number in range(len(images))))


def describe(name: str, images: FolderImages) -> str:
    """What is decoded; reads every file on the way."""
    pixels = length = 0
    for file in images.files:
        length += len((images.root / file).read_bytes())
        with Image.open(images.root / file) as image:
            pixels += image.width * image.height
    each = f"{pixels / len(images):,.0f} pixels and {length / len(images) / 1000:,.0f} kB each on average"
    return f"{name}: {len(images):,} different files, {each}, to {images.size} x {images.size}"


def stream_rates(images: FolderImages, view: View, workers: int, options: argparse.Namespace) -> tuple[float, float]:
    """Images a second after the first batch, and the seconds until that, the start of the processes included."""
    batches = 1 + math.ceil(workers * options.images / options.batch)
    firsts = (np.arange(options.batch) + step * options.batch for step in range(batches))
    requests: Iterator[Request] = ((indices % len(images), view) for indices in firsts)
    began = time.perf_counter()
    with Stream(images, workers) as stream:
        coming = stream.batches(requests)
        next(coming)
        first = time.perf_counter()
        count = sum(len(batch) for batch in coming)
        return count / (time.perf_counter() - first), first - began


def bad_file_rates(images: FolderImages, workers: int) -> tuple[float, float]:
    """Files a second after the first ones, and the seconds until those."""
    seen: list[tuple[int, float]] = []
    began = time.perf_counter()
    find_bad_files(images, workers, lambda done, files: seen.append((done, time.perf_counter())))
    (early, first), (late, last) = seen[0], seen[-1]
    return (late - early) / (last - first), first - began


def report(name: str, rates: dict[int, tuple[float, float]], needed: float | None) -> None:
    alone, _ = rates[1]
    for workers, (rate, before) in rates.items():
        each = f"{rate / workers:,.0f} for each worker, {rate / alone:.2f} times one worker"
        counted = "1 worker" if workers == 1 else f"{workers} workers"
        print(f"{name}, {counted}: {rate:,.0f} images/s, {each}; the first after {before:.2f} s")
    most = max(rates)
    if needed is not None:
        enough = math.ceil(needed / (rates[most][0] / most))
        there = f"{default_workers()} CPUs to use here"
        print(f"{name}: {needed:,.0f} images/s take {enough} workers of that speed ({there})")


if __name__ == "__main__":
    main()
