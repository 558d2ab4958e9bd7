"""The slowdown of certifying on a CPU next to another busy process, by how torch's threads wait.

Prints, for the shipped k = 45 model on all cores, the seconds per image on an idle machine and next to a process that
keeps one core busy, and their ratio:
  - with torch's default (threads spin), the package's setting (threads sleep), and a single thread;
  - with fair scheduling the ratio would be 1 + 1 / cores; threads that wait for the slowest reach at most 2 (bar).
    On an idle machine, sleeping may cost at most 1.1 times the default (bar).
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

IMAGES, SAMPLES, ROUNDS = 3, 3_000, 3
BUSY_BAR, IDLE_BAR = 2.0, 1.1
WAYS: dict[str, dict[str, str]] = {
    "default": {},
    "sleeping": {"OMP_WAIT_POLICY": "PASSIVE"},
    "one thread": {"OMP_NUM_THREADS": "1"},
}
CHILD = f"""
import time, torch  # torch first: the environment alone decides how its threads wait
from sparsecert import Smoothed, datasets
g = Smoothed.load("mnist-k45", precision="fp32")
images = torch.from_numpy(datasets.load("mnist-sample").images.batch(range({IMAGES}))).float() / 255
g.count(images[:1], 0, 200)
start = time.perf_counter()
g.count(images, 0, {SAMPLES})
print((time.perf_counter() - start) / {IMAGES})
"""


def main() -> None:
    cores = os.cpu_count() or 1
    print(f"mnist-k45, {SAMPLES:,} copies an image, fp32, seed 0, {cores} cores, {platform.machine()}")
    print(f"medians of {ROUNDS} rounds; a fair share beside one busy process: {1 + 1 / cores:.2f}")
    times: dict[tuple[str, bool], list[float]] = {}
    for _ in range(ROUNDS):
        for way in WAYS:
            for busy in (False, True):
                times.setdefault((way, busy), []).append(seconds(way, busy))
    medians = {case: statistics.median(found) for case, found in times.items()}
    for way in WAYS:
        idle, beside = medians[way, False], medians[way, True]
        print(f"{way:>10}: {idle:.2f} s an image idle, {beside:.2f} s beside a busy process, ratio {beside / idle:.2f}")
    show("beside / idle, sleeping", medians["sleeping", True] / medians["sleeping", False], BUSY_BAR)
    show("idle, sleeping / default", medians["sleeping", False] / medians["default", False], IDLE_BAR)


def show(what: str, ratio: float, bar: float) -> None:
    print(f"{what}: {ratio:.2f} (bar {bar}: {'met' if ratio <= bar else 'MISSED'})")


def seconds(way: str, busy: bool) -> float:
    """The time an image takes in a process of its own."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("OMP_")}
    with neighbour() if busy else nullcontext():
        done = subprocess.run(
            [sys.executable, "-c", CHILD], env={**ours, **WAYS[way]}, capture_output=True, text=True, check=True
        )
    return float(done.stdout)


@contextmanager
def neighbour() -> Iterator[None]:
    """A process that keeps one core busy."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    main()
