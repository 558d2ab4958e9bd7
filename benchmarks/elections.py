"""Elections of fixed masks: images a second on one core, many at once and image by image; `make bench`.

Prints, for disjoint masks of a 28 x 28 image and for three partitions side by side, by each rule, how many rankings
become a winner and a radius per second of CPU time, and the ratio of the two ways, measured in one run. Bars, by the
default rule: 50,000 a second for 60 disjoint masks, 10,000 for 60 x 3.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from sparsecert.certificates.adversary import PerturbedUnits
from sparsecert.procedures.exact import AT_ONCE, elect
from sparsecert.registry import RULES
from sparsecert.schemes import Lattice, Partition

CLASSES = 10
MANY, FEW = 16 * AT_ONCE, AT_ONCE
SECONDS = 1.0  # each measurement, at least
SETS = {"28 x 1": Lattice(28, 28, 28), "60 x 1": Lattice(28, 28, 60), "60 x 3": Partition(784, 60, rounds=3)}
BARS = {"60 x 1": 50_000, "60 x 3": 10_000}


def main() -> None:
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


def verdict(name: str, default: bool, found: float) -> str:
    if not default or name not in BARS:
        return ""
    return f" (bar {BARS[name]:,}: {'met' if found >= BARS[name] else 'MISSED'})"


if __name__ == "__main__":
    main()
