"""The cost of attacking a smoothed classifier, by how queries are answered, in one run.

    python -m benchmarks.attack_cost --images 20 --restarts 10

The Pointwise attack on the same images, each query answered by all n copies with fresh masks (as in the paper), by
common masks of which only those that show a changed pixel are evaluated again (error 0), and by as many of these as
decide the query at a given error rate. Results are confirmed by all copies of fresh masks in each case, and that is
counted too. Prints base-classifier evaluations and distances, each relative to the first line.
"""

from __future__ import annotations

import argparse
import platform
import time

import torch

from sparsecert import datasets
from sparsecert.attacks import Outcome, Pointwise, SmoothedDefender, SurrogateDefender
from sparsecert.devices import native_precision
from sparsecert.smoothed import Smoothed

SEED = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="mnist-k45")
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--images", type=int, default=20, help="evenly spaced test images")
    parser.add_argument("--restarts", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=0, help="of the Pointwise attack; 0: as published")
    parser.add_argument("--samples", type=int, default=10_000, help="copies per query")
    parser.add_argument("--errors", type=float, nargs="+", default=[0.0, 0.01, 0.05, 0.2])
    parser.add_argument(
        "--no-tie", action="store_true", help="search until the label is not answered, not until it does not lead"
    )
    parser.add_argument("--skip-full", action="store_true", help="skip fresh masks for every query")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    device = torch.device(options.device)
    smoothed = Smoothed.load(
        options.model, device=device, precision=native_precision(device) if device.type == "cuda" else "fp32"
    )
    data = datasets.load(options.data, "test")
    which = [place * len(data) // options.images for place in range(options.images)]
    images, labels = torch.from_numpy(data.images.batch(which)).float() / 255, torch.from_numpy(data.labels[which])
    attack = Pointwise(restarts=options.restarts, rounds=options.rounds)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    print(f"{name}, {options.model}, {len(which)} evenly spaced test images of {options.data}, {attack}")
    print(f"{options.samples:,} copies a query, alpha 0.05, seed {SEED}, {smoothed.precision}")
    cost = f"{'queries':>9} {'evaluations':>14} {'a query':>9} {'fewer':>7}"
    print(f"{'answers':>14} {cost} {'found':>6} {'median':>7} {'mean':>7} {'seconds':>8}")
    defenders = [] if options.skip_full else [("fresh masks", SmoothedDefender(smoothed, options.samples, seed=SEED))]
    defenders += [
        (
            f"error {error:g}",
            SurrogateDefender(smoothed, options.samples, seed=SEED, error=error, tie=not options.no_tie),
        )
        for error in options.errors
    ]
    first: float | None = None
    for name, defender in defenders:
        began = time.perf_counter()
        final = SmoothedDefender(smoothed, options.samples, seed=SEED + 1)
        found = attack(defender, images, labels.long(), seed=SEED, final=final)
        first = first or float(found.evaluations.sum())
        show(name, found, first, time.perf_counter() - began)


def show(name: str, found: Outcome, first: float, taken: float) -> None:
    """One line; the mean is over the images for which something was found."""
    evaluations, queries = int(found.evaluations.sum()), int(found.queries.sum())
    distances = found.distances[found.succeeded].double()
    cost = f"{queries:9,} {evaluations:14,} {evaluations / queries:9,.0f} {first / evaluations:6.1f}x"
    reached = f"{int(found.succeeded.sum()):6} {found.median:7.1f} {distances.mean():7.2f}"
    print(f"{name:>14} {cost} {reached} {taken:8.1f}", flush=True)


if __name__ == "__main__":
    main()
