"""Three ways to a certified classifier, where a network of whole images is given, at equal training time.

    python -m benchmarks.pretrained --minutes 1
    python -m benchmarks.pretrained --data imagenette --minutes 5 --split test

First trains that plain network (or reads it: --plain), and then, each for --minutes: a restorer in front of the frozen
network (`sparsecert.restoring`); the network adapted to NULL and fine-tuned (`sparsecert.adapt`); the same architecture
on ablated copies from random weights. Prints accuracy, median radius and certified accuracy of each. Epochs and steps
are chosen so that they fill the time, at a rate measured before; compiling is not counted. Restorers are trained in
fp32, networks in bf16 on a GPU that has it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from benchmarks.held_out import ALPHA, SEED, correct_radii, median, trained
from benchmarks.speed import synchronise
from sparsecert import datasets, models
from sparsecert.datasets import Dataset
from sparsecert.devices import native_precision
from sparsecert.encodings import Encoding, MeanFill, NullChannels
from sparsecert.models.restoring import restoring
from sparsecert.procedures import Exact, Fixed, Procedure
from sparsecert.runs import load_batch
from sparsecert.schemes import Scheme, SchemeSpec, Uniform
from sparsecert.smoothed import Smoothed
from sparsecert.training import TrainingRun, held_out
from sparsecert.training.recipe import OF_THE_DATA
from sparsecert.training.recipes import RECIPES, Recipe, recipe_for
from sparsecert.training.restorer import train_restorer

TRIED = 20  # steps that are timed, after as many to warm up
AT_ONCE = 250  # images that are read or classified together
EVERY = 15.0  # seconds between progress lines
WAYS = ["frozen", "adapted", "random"]
RESTORED = 50_000  # images that a restorer is trained on, at most: they are held in memory


@dataclass(frozen=True)
class Setting:
    """What all ways share; `recipe` is that of the network from random weights."""

    fit: Dataset
    judged: Dataset
    recipe: Recipe
    scheme: Scheme
    device: torch.device
    procedure: Procedure


Row = tuple[str, str, float, np.ndarray[Any, np.dtype[np.int64]]]  # way, length, minutes, radii


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="cifar10")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--split", default="held-out", choices=["held-out", "test"], help="the images to judge by")
    parser.add_argument("--limit", type=int, default=1_000, help="how many of them, evenly spaced")
    parser.add_argument("--minutes", type=float, default=1.0, help="of training, for each way")
    parser.add_argument("--plain-minutes", type=float, help="for the plain network (default: --minutes)")
    parser.add_argument("--plain", type=Path, help="its weights: read from this file, or written to it if missing")
    parser.add_argument("--recipe", help="from random weights, and the architecture (default: the modern one)")
    parser.add_argument("--ways", nargs="+", default=WAYS, choices=WAYS, help="some of the three alone")
    parser.add_argument("--fine-tune", nargs="+", default=["fine-tune"], metavar="RECIPE", help="one row for each")
    parser.add_argument("--model", help="another architecture than the recipe's")
    parser.add_argument("--scheme", help="a fixed set of masks, such as bands-4; random ones without")
    parser.add_argument("--keep", type=int, help="pixels that random masks retain (default: the recipe's)")
    parser.add_argument("--n", type=int, default=1_000, help="random masks that vote, after a tenth that select")
    parser.add_argument("--rhos", type=int, nargs="+", default=[1, 2, 3, 4, 6, 8, 10])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args(arguments)
    setting = setting_of(options)
    describe(setting, options)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        path = options.plain or Path(folder) / "plain.safetensors"
        if options.ways != ["random"]:
            if not path.exists():
                train_plain(setting, options.plain_minutes or options.minutes, path)
            plain = read_plain(setting, path)
            say(f"plain network: {accuracy(plain, setting.judged, setting.device):.2%} of whole images right")
        if "frozen" in options.ways:
            rows.append(frozen(setting, plain, options.minutes))
        for name in options.fine_tune if "adapted" in options.ways else ():
            recipe = of_the_data(RECIPES[name], setting.recipe)
            rows.append(on_copies(f"adapted, {name}", setting, recipe, options.minutes, path))
    if "random" in options.ways:
        rows.append(on_copies(f"random weights, {setting.recipe.name}", setting, setting.recipe, options.minutes))
    print_table(rows, options.rhos)


def setting_of(options: argparse.Namespace) -> Setting:
    """The images, masks and recipe that the options ask for."""
    device, data = torch.device(options.device), datasets.load(options.data, "train", options.data_dir)
    if options.split == "test":
        fit, judged = data, datasets.load(options.data, "test", options.data_dir)
    else:
        fit, judged = held_out.split(data)
    modern = f"modern-{options.data}"
    recipe = recipe_for(fit, options.recipe or (modern if modern in RECIPES else None))
    recipe = replace(recipe, keep=options.keep or recipe.keep, model=options.model or recipe.model, normalise=False)
    recipe = replace(recipe, precision=native_precision(device) if device.type == "cuda" else "fp32")
    scheme: Scheme = Uniform(fit.units.count, recipe.keep)
    procedure: Procedure = Fixed(-(-options.n // 10), options.n, "pairwise")
    if options.scheme:
        channels, height, width = fit.shape
        scheme, procedure = SchemeSpec.parse(options.scheme).of(height, width, channels), Exact()
    return Setting(fit, held_out.part(judged, judged.spaced_indices(options.limit)), recipe, scheme, device, procedure)


def describe(setting: Setting, options: argparse.Namespace) -> None:
    device, recipe = setting.device, setting.recipe
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    votes = "all masks vote"
    if isinstance(setting.procedure, Fixed):
        votes = f"n0 {setting.procedure.n0}, n {setting.procedure.n}, alpha {ALPHA}, pairwise bound"
    print(f"{name}, torch {torch.__version__}, {options.data}, {recipe.model}, {setting.scheme}, {recipe.precision}")
    judged = f"{len(setting.judged)} {options.split} images to judge by"
    print(f"{len(setting.fit)} images to train on, {judged}, {votes}, seed {SEED}")
    print(f"{options.minutes:g} minutes for each way", flush=True)


def of_the_data(recipe: Recipe, own: Recipe) -> Recipe:
    """The recipe with the architecture, masks, augmentation and precision of `own`, so that ways differ in no more."""
    return replace(recipe, precision=own.precision, **{part: getattr(own, part) for part in OF_THE_DATA})


def train_plain(setting: Setting, minutes: float, path: Path) -> None:
    """Trains the architecture on whole images, and writes its weights."""
    whole = Uniform(setting.fit.units.count, setting.fit.units.count)
    recipe = replace(
        setting.recipe, keep=whole.keep, masks="minibatch", copies=1, consistency=0.0, vote=None, weight_decay=0.0005
    )
    setting, encoding = replace(setting, scheme=whole), MeanFill(setting.fit.mean)  # values as they are
    smoothed, length, taken = in_time("plain network", setting, recipe, minutes, encoding)
    assert isinstance(smoothed.model, nn.Module)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in smoothed.model.state_dict().items()}, path)
    say(f"plain network: {length} in {taken:.2f} minutes")


def read_plain(setting: Setting, path: Path) -> nn.Module:
    """The plain network, as it is given."""
    plain = models.build(
        setting.recipe.model, setting.fit.shape[0], len(setting.fit.classes), SEED, scheme=setting.scheme
    )
    plain.load_state_dict(load_file(path))
    return plain.to(setting.device).eval()


def accuracy(plain: nn.Module, judged: Dataset, device: torch.device) -> float:
    """The share of whole images that the network gets right."""
    right = 0
    with torch.no_grad():
        for first in range(0, len(judged), AT_ONCE):
            chosen = range(first, min(first + AT_ONCE, len(judged)))
            labels = plain(load_batch(judged, chosen).to(device)).argmax(dim=1).cpu().numpy()
            right += int((labels == judged.labels[chosen.start : chosen.stop]).sum())
    return right / len(judged)


def frozen(setting: Setting, plain: nn.Module, minutes: float) -> Row:
    """The plain network behind a restorer."""
    chosen, way = setting.fit.spaced_indices(RESTORED).tolist(), "frozen, restorer"
    parts = [load_batch(setting.fit, chosen[first : first + AT_ONCE]) for first in range(0, len(chosen), AT_ONCE)]
    images = torch.cat(parts).to(setting.device)
    train = partial(train_restorer, images, setting.scheme, NullChannels(), plain, seed=SEED, device=setting.device)
    ends: list[float] = []
    train(steps=2 * TRIED, on_progress=lambda *_, **__: ends.append(time.perf_counter()))
    steps = max(1, int(60 * minutes * TRIED / (ends[-1] - ends[TRIED - 1])))
    progress, began = Progress(way), time.perf_counter()
    restorer = train(steps=steps, on_progress=lambda done, all_of_them, **metrics: progress(done, all_of_them, metrics))
    synchronise(setting.device)
    taken = (time.perf_counter() - began) / 60
    classes, precision = len(setting.fit.classes), native_precision(setting.device)
    joined = restoring(restorer, plain)
    smoothed = Smoothed(joined, setting.scheme, NullChannels(), classes=classes, precision=precision)
    return judge(way, setting, smoothed, f"{steps:,} steps", taken)


def on_copies(way: str, setting: Setting, recipe: Recipe, minutes: float, init: Path | None = None) -> Row:
    """A network trained on ablated copies, from the weights in `init` or random ones."""
    smoothed, length, taken = in_time(way, setting, recipe, minutes, NullChannels(), init)
    return judge(way, setting, smoothed, length, taken)


def in_time(
    way: str, setting: Setting, recipe: Recipe, minutes: float, encoding: Encoding, init: Path | None = None
) -> tuple[Smoothed, str, float]:
    """What the recipe makes of the images in so many minutes, the epochs, and the minutes it really took.

    Whole batches alone, so that each step has the same shape; the third epoch of a short run says how long one takes.
    """
    recipe = replace(recipe, batch=min(recipe.batch, len(setting.fit)))
    count = len(setting.fit) // recipe.batch * recipe.batch
    tried = min(count, TRIED * recipe.batch)
    train = partial(trained, scheme=setting.scheme, encoding=encoding, device=setting.device, init=init)
    log: list[float] = []
    train(
        recipe.shortened(3),
        fit=held_out.part(setting.fit, np.arange(tried)),
        on_epoch=lambda run: log.append(run.log[-1]["seconds"]),
    )
    epochs = max(1, int(60 * minutes * tried / (log[-1] * count)))
    progress = Progress(way)

    def on_epoch(run: TrainingRun) -> None:
        progress(run.step, run.steps, {name: run.log[-1][name] for name in ("loss", "accuracy")})

    whole = held_out.part(setting.fit, np.arange(count))
    smoothed, taken, _ = train(recipe.shortened(epochs), fit=whole, on_epoch=on_epoch)
    return smoothed, f"{epochs:,} epochs", taken / 60


def judge(way: str, setting: Setting, smoothed: Smoothed, length: str, taken: float) -> Row:
    """The row of a way: what it certifies."""
    say(f"{way}: {length} in {taken:.2f} minutes, certifying {len(setting.judged)} images")
    radii = correct_radii(smoothed, setting.judged, setting.procedure)
    say(f"{way}: {np.mean(radii >= 0):.2%} right, median radius {median(radii)}")
    return way, length, taken, radii


def print_table(rows: Sequence[Row], rhos: Sequence[int]) -> None:
    header = " ".join(f"{f'rho {rho}':>7}" for rho in rhos)
    print(f"\n{'way':40} {'training':>14} {'minutes':>8} {'accuracy':>9} {'median':>7} {header}")
    for way, length, taken, radii in rows:
        certified = " ".join(f"{np.mean(radii >= rho):7.2%}" for rho in rhos)
        right = f"{np.mean(radii >= 0):9.2%} {median(radii):>7}"
        print(f"{way:40} {length:>14} {taken:8.2f} {right} {certified}", flush=True)


class Progress:
    """Prints a line at intervals."""

    def __init__(self, way: str) -> None:
        self.way, self.said = way, time.perf_counter()

    def __call__(self, done: int, steps: int, metrics: dict[str, float]) -> None:
        if time.perf_counter() - self.said >= EVERY:
            self.said = time.perf_counter()
            found = ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())
            say(f"{self.way}: step {done:,} of {steps:,}, {found}")


def say(line: str) -> None:
    """A line of progress."""
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


if __name__ == "__main__":
    main()
