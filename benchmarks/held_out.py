"""Compares recipe settings on training images that are held out (`sparsecert.training.held_out`).

    python -m benchmarks.held_out --keep 100 --change epochs=50 --change epochs=100,weight_decay=0.0005,rate=0.4
    python -m benchmarks.held_out --data mnist --recipe vote-mnist --scheme spread-160 --change vote.target=0.2
    python -m benchmarks.held_out --recipe grid-cifar10 --scheme grid-8 --change seed=0 --change seed=1 --average

Each --change is one variant of the recipe, or another seed. Prints, for each: training accuracy in the last epoch and,
of held-out images, the accuracy, the median radius and the certified accuracy at several rho, by the election rules for
fixed masks or, for random ones, by the bounds with --n votes. With --average also of all variants' networks averaged
into one vote (`models.averaged`), and of that over mirrored copies too.
"""

from __future__ import annotations

import argparse
import ast
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.speed import synchronise
from sparsecert import datasets
from sparsecert.datasets import Dataset
from sparsecert.devices import native_precision
from sparsecert.encodings import Encoding
from sparsecert.models.average import averaged
from sparsecert.procedures import Exact, Fixed, Procedure
from sparsecert.reports.comparison import format_median
from sparsecert.reports.medians import median_certified_robustness
from sparsecert.schemes import FixedMasks, Scheme, SchemeSpec, Uniform
from sparsecert.smoothed import Smoothed
from sparsecert.training import TrainingRun, default_encoding, held_out
from sparsecert.training.cuda_graph import step_function
from sparsecert.training.recipe import VoteObjective
from sparsecert.training.recipes import RECIPES, Recipe

SEED, ALPHA, IMAGES = 0, 0.05, 500  # IMAGES: certified together


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="cifar10")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--recipe", default="modern-cifar10")
    parser.add_argument("--encoding", default="null-channels", choices=["null-channels", "mean-fill"])
    parser.add_argument("--scheme", help="a fixed set of masks, such as lattice-64x1; random ones without")
    parser.add_argument("--keep", type=int, default=50, help="pixels that random masks retain")
    parser.add_argument("--change", action="append", default=[], help="settings of the recipe, rate, vote.target, seed")
    parser.add_argument("--average", action="store_true", help="judge the average of all variants, too")
    parser.add_argument("--rules", nargs="+", default=["pairwise", "run-off"], help="for fixed masks")
    parser.add_argument("--bounds", nargs="+", default=["pairwise", "two-sided"], help="for random masks")
    parser.add_argument(
        "--n", type=int, default=1_000, help="random masks that vote, after a tenth as many that select"
    )
    parser.add_argument("--limit", type=int, help="train and judge on so many images alone")
    parser.add_argument("--rhos", type=int, nargs="+", default=[3, 4, 5, 6, 7, 8, 9, 10])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    fit, held = (
        held_out.part(images, images.spaced_indices(options.limit))
        for images in held_out.split(datasets.load(options.data, "train", options.data_dir))
    )
    device = torch.device(options.device)
    scheme: Scheme = Uniform(fit.units.count, options.keep)
    procedures: list[Procedure] = [Fixed(-(-options.n // 10), options.n, bound) for bound in options.bounds]
    if options.scheme:
        channels, height, width = fit.shape
        scheme = SchemeSpec.parse(options.scheme).of(height, width, channels)
        procedures = [Exact(rule) for rule in options.rules]
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    votes = "all masks vote" if options.scheme else f"{options.n // 10} + {options.n} votes, alpha {ALPHA}"
    print(f"{name}, {options.data}, {options.recipe}, {options.encoding}, {scheme}, seed {SEED}")
    print(f"{len(fit)} images to train on, {len(held)} to judge by, {votes}")
    header = " ".join(f"{f'rho {rho}':>7}" for rho in options.rhos)
    print(f"{'change':50} {'seconds':>8} {'training':>9} {'by':>10} {'accuracy':>9} {'median':>7} {header}", flush=True)

    def judge(name: str, smoothed: Smoothed, seconds: float, accuracy: str) -> None:
        for procedure in procedures:
            radii = correct_radii(smoothed, held, procedure)
            certified = " ".join(f"{np.mean(radii >= rho):7.2%}" for rho in options.rhos)
            by = getattr(procedure, "rule", None) or getattr(procedure, "bound", "")
            right = f"{np.mean(radii >= 0):9.2%} {median(radii):>7}"
            print(f"{name:50} {seconds:8.1f} {accuracy:>9} {by:>10} {right} {certified}", flush=True)

    networks: list[torch.nn.Module] = []
    total = 0.0
    for change in options.change or [""]:
        settings, seed = apart_from_seed(change)
        recipe = replace(changed(RECIPES[options.recipe], settings), keep=options.keep)
        encoding = default_encoding(fit, recipe, options.encoding)
        smoothed, seconds, accuracy = trained(recipe, scheme, encoding, fit, device, seed=seed)
        judge(change or "none", smoothed, seconds, f"{accuracy:.2%}")
        assert isinstance(smoothed.model, torch.nn.Module)
        networks.append(smoothed.model)
        total += seconds
    for mirrored in (False, True) if options.average else ():
        network, precision = averaged(networks, mirrored), smoothed.precision
        average = Smoothed(network, scheme, encoding, classes=len(fit.classes), precision=precision)
        judge(f"average of {len(networks)}{', mirrored' if mirrored else ''}", average, total, "-")


def apart_from_seed(change: str) -> tuple[str, int]:
    """A change without its seed, and that seed."""
    settings = [setting for setting in change.split(",") if not setting.startswith("seed=")]
    return ",".join(settings), int(change.partition("seed=")[2].partition(",")[0] or SEED)


def changed(recipe: Recipe, change: str) -> Recipe:
    """The recipe with the settings that a change names; rates fall at the same shares of other epochs."""
    given = {name: value(text) for name, text in (setting.split("=", 1) for setting in change.split(",") if setting)}
    recipe = recipe.shortened(given.pop("epochs", None))
    settings: dict[str, Any] = {"rates": ((1, given.pop("rate")),)} if "rate" in given else {}
    if "rates" in given:  # as in 0.1/0.01, from the same epochs on
        rates = [float(rate) for rate in str(given.pop("rates")).split("/")]
        settings["rates"] = tuple((first, rate) for (first, _), rate in zip(recipe.rates, rates, strict=True))
    if vote := {name[5:]: given.pop(name) for name in list(given) if name.startswith("vote.")}:
        settings["vote"] = replace(recipe.vote, **vote) if recipe.vote else VoteObjective(**vote)
    return replace(recipe, **settings, **given)


def value(text: str) -> Any:
    """A number, or else the text itself."""
    with suppress(ValueError, SyntaxError):
        return ast.literal_eval(text)
    return text


def trained(
    recipe: Recipe,
    scheme: Scheme,
    encoding: Encoding,
    fit: Dataset,
    device: torch.device,
    init: Path | None = None,
    seed: int = SEED,
    on_epoch: Callable[[TrainingRun], None] = lambda run: None,
) -> tuple[Smoothed, float, float]:
    """What the recipe makes of the images, the seconds that took, and the training accuracy of the last epoch."""
    began, accuracy = time.perf_counter(), 0.0
    run = TrainingRun(fit, recipe, scheme, encoding, seed, device, init=init)
    with closing(run):
        run.model.train()
        take_step = step_function([run])
        while run.step < run.steps:
            take_step([run])
            if run.step % run.epoch_steps == 0:
                accuracy = run.end_epoch()[1]
                on_epoch(run)
    synchronise(device)
    taken = time.perf_counter() - began
    precision = native_precision(device)
    return Smoothed(run.model, scheme, encoding, classes=len(fit.classes), precision=precision), taken, accuracy


def correct_radii(smoothed: Smoothed, held: Dataset, procedure: Procedure) -> NDArray[np.int64]:
    """The radius of each image; -1 where the answer is wrong, or none."""
    alpha, found = None if isinstance(smoothed.scheme, FixedMasks) else ALPHA, []
    for chosen, images, labels in batches(held):
        answers = smoothed.certify(images, procedure, alpha=alpha, seed=SEED, examples=chosen)
        right = ~answers.abstained & (answers.labels == labels)
        found.append(np.where(right, answers.radii, -1))
    return np.concatenate(found)


def batches(data: Dataset) -> Iterator[tuple[range, torch.Tensor, NDArray[np.int64]]]:
    """The numbers of some images, the images in [0, 1], and their true classes."""
    for first in range(0, len(data), IMAGES):
        chosen = range(first, min(first + IMAGES, len(data)))
        yield chosen, torch.from_numpy(data.images.batch(chosen)).float() / 255, data.labels[chosen.start : chosen.stop]


def median(radii: NDArray[np.int64]) -> str:
    """The median certified radius, where -1 stands for none."""
    return format_median(median_certified_robustness([int(radius) if radius >= 0 else None for radius in radii]))


if __name__ == "__main__":
    main()
