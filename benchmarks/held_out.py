"""Compares recipe settings on held-out data: trains on CIFAR-10's first 45,000 training images, evaluates on the last
5,000.

    python -m benchmarks.held_out --keep 100 --change epochs=50 --change epochs=100,weight_decay=0.0005,rate=0.4

Each --change is one variant of the recipe. Prints, for each: training accuracy in the last epoch, accuracy on single
ablated copies of held-out images, and for several rho the share of held-out images whose lead, in a few hundred votes,
would suffice for a two-sided certificate with infinitely many.
"""

from __future__ import annotations

import argparse
import time
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from benchmarks.speed import synchronise
from sparsecert import datasets
from sparsecert.datasets import ArrayImages, Dataset
from sparsecert.devices import native_precision
from sparsecert.schemes import ESTIMATION, Uniform
from sparsecert.smoothed import Smoothed
from sparsecert.training import TrainingRun, default_encoding
from sparsecert.training.cuda_graph import step_function
from sparsecert.training.recipes import RECIPES, Recipe

HELD_OUT, VOTES, SEED = 5_000, 200, 0
KINDS: dict[str, type] = {
    "epochs": int,
    "batch": int,
    "copies": int,
    "consistency": float,
    "weight_decay": float,
    "warm_up": float,
    "masks": str,
    "precision": str,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="modern-cifar10")
    parser.add_argument("--encoding", default="null-channels", choices=["null-channels", "mean-fill"])
    parser.add_argument("--keep", type=int, default=50)
    parser.add_argument("--change", action="append", default=[], help=f"{', '.join(KINDS)}, rate; the recipe without")
    parser.add_argument("--rhos", type=int, nargs="+", default=[0, 3, 4, 5, 6, 7, 8, 9, 10])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    data, device = datasets.load("cifar10", "train"), torch.device(options.device)
    fit, held = part(data, 0, len(data) - HELD_OUT), part(data, len(data) - HELD_OUT, len(data))
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    print(f"{name}, {options.recipe}, {options.encoding}, k = {options.keep}, seed {SEED}")
    print(f"{len(fit)} images to train on, {len(held)} to judge by, {VOTES} votes each")
    header = " ".join(f"{f'rho {rho}':>7}" for rho in options.rhos)
    print(f"{'change':40} {'seconds':>8} {'training':>9} {'held out':>9} {header}", flush=True)
    for change in options.change or [""]:
        recipe = replace(changed(RECIPES[options.recipe], change), keep=options.keep)
        compare(change or "none", recipe, options.encoding, fit, held, options.rhos, device)


def changed(recipe: Recipe, change: str) -> Recipe:
    """The recipe with the settings that a change names."""
    given = dict(setting.split("=", 1) for setting in change.split(",") if setting)
    settings: dict[str, Any] = {"rates": ((1, float(given.pop("rate"))),)} if "rate" in given else {}
    return replace(recipe, **settings, **{name: KINDS[name](value) for name, value in given.items()})


def compare(
    name: str, recipe: Recipe, encoding_name: str, fit: Dataset, held: Dataset, rhos: list[int], device: torch.device
) -> None:
    """Trains by the recipe and prints its line."""
    encoding = default_encoding(fit, recipe, encoding_name)
    scheme = Uniform(encoding.units(fit.images.shape).count, recipe.keep)
    began = time.perf_counter()
    run = TrainingRun(fit, recipe, scheme, encoding, SEED, device)
    with closing(run):
        accuracy = trained(run)
    synchronise(device)
    taken = time.perf_counter() - began
    smoothed = Smoothed(run.model, scheme, encoding, classes=len(fit.classes), precision=native_precision(device))
    shares = votes(smoothed, held)
    true = shares[np.arange(len(held)), held.labels]
    shares[np.arange(len(held)), held.labels] = 0
    lead = true - shares.max(axis=1)
    certified = " ".join(f"{np.mean(lead > 2 * float(scheme.delta(rho))):7.2%}" for rho in rhos)
    print(f"{name:40} {taken:8.1f} {accuracy:9.2%} {true.mean():9.2%} {certified}", flush=True)


def trained(run: TrainingRun) -> float:
    """Takes all steps; the accuracy of the last epoch."""
    run.model.train()
    take_step, accuracy = step_function([run]), 0.0
    while run.step < run.steps:
        take_step([run])
        if run.step % run.epoch_steps == 0:
            accuracy = run.end_epoch()[1]
    return accuracy


def votes(smoothed: Smoothed, held: Dataset) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Of each image, the share of each class."""
    images = torch.from_numpy(held.images.batch(range(len(held)))).float() / 255
    return smoothed.count(images, ESTIMATION, VOTES, SEED).votes / VOTES


def part(data: Dataset, first: int, last: int) -> Dataset:
    """Images `first` to before `last`."""
    images = ArrayImages(data.images.batch(range(first, last)))
    return replace(data, images=images, labels=data.labels[first:last])


if __name__ == "__main__":
    main()
