"""The paper's training with one setting changed at a time, beside the figures that it reports.

    python -m benchmarks.paper_recipe --out runs/paper --change repeat=200 --change norm_rows=32 --change masks=sample
    python -m benchmarks.paper_recipe --out runs/short --change epochs=100 --change epochs=100,rates=0.1/0.01
    python -m benchmarks.paper_recipe --out runs/k10 --data mnist --keep 10 --n0 1000 --n 10000 --change seed=1

Trains each variant on all training images, side by side, and judges it on the test images: to tell why figures differ
from the published ones, not to choose anything. A stopped run resumes where the same command is given again; models and
records stay in its folders. Prints, for each: the accuracy of the last epoch in training; of test images, that of
single copies, that of the vote (in brackets: how many abstain), and the median certified radius by Corollary 1, counted
as the paper's own code does (`Summary.median_reference`).

The published scripts train 200 epochs, and 200 more when started again with the same seed: then orders, crops and flips
of CIFAR-10 repeat (repeat=200), and orders and masks of MNIST (repeat=200,repeat_masks=True).
Before its version 1.2 of August 2019, PyTorch drew the initial weights of batch norm from [0, 1) instead of setting
them to 1 (norms=uniform). With precision=bf16,norms=uniform,repeat=200,repeat_masks=True the published figures of
CIFAR-10 come out within a third of a point.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import torch
from torch import nn

from benchmarks.held_out import ALPHA, SEED, apart_from_seed, changed
from sparsecert import datasets, records
from sparsecert.cli.progress import inputs_bar, training_bar
from sparsecert.datasets import Dataset
from sparsecert.devices import native_precision
from sparsecert.errors import InputError
from sparsecert.procedures import Fixed
from sparsecert.records import find_records
from sparsecert.reports import summarise
from sparsecert.reports.comparison import format_median
from sparsecert.runs import certify_dataset
from sparsecert.schemes import Uniform
from sparsecert.smoothed import Smoothed
from sparsecert.training import Stop, TrainingRun, default_encoding, held_out, train_many
from sparsecert.training.recipes import RECIPES
from sparsecert.training.run import LOG_NAME
from studies.levine_feizi_2020.published import published, published_base_accuracy
from studies.levine_feizi_2020.record_files import BOUND

TABLES = {"mnist": "table-1", "cifar10": "table-3"}
UNIFORM = "norms=uniform"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="cifar10", choices=list(TABLES))
    parser.add_argument("--keep", type=int, default=75)
    parser.add_argument("--change", action="append", default=[], help="settings of the recipe, seed=1, norms=uniform")
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop training after so many")
    parser.add_argument("--n0", type=int, default=100)
    parser.add_argument("--n", type=int, default=1_000)
    parser.add_argument("--limit", type=int, help="train and judge on so many images alone")
    parser.add_argument("--fp32", action="store_true", help="convolutions in fp32 where a GPU would take TF32")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    try:
        train, test = (
            held_out.part(images, images.spaced_indices(options.limit))
            for images in (datasets.load(options.data, split) for split in ("train", "test"))
        )
    except InputError as error:
        parser.exit(2, f"error: {error}\n")
    device, changes = torch.device(options.device), options.change or [""]
    torch.backends.cudnn.allow_tf32 = not options.fp32
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    products = "fp32" if options.fp32 or device.type == "cpu" else "TF32"
    votes = f"{options.n0:,} + {options.n:,} votes, alpha {ALPHA}"
    print(f"{name}, {options.data}, paper-{options.data}, k = {options.keep}, {products}")
    print(f"{len(train):,} images to train on, {len(test):,} to judge by, {votes}", flush=True)
    folders = trained(options, train, changes, device)
    width = max(40, *map(len, changes))
    print(f"{'change':{width}} {'training':>9} {'single copies':>14} {'accuracy':>17} {'median':>7}")
    for change, folder in zip(changes, folders, strict=True):
        path = certified(folder, test, options.n0, options.n, device)
        print(f"{change or 'none':{width}} {measured(path)}", flush=True)
    print(f"{'published':{width}} {reported(options.data, options.keep)}")


def trained(options: argparse.Namespace, train: Dataset, changes: list[str], device: torch.device) -> list[Path]:
    """The folder of each variant, trained; exits with 3 where the time is over before."""
    runs: list[tuple[TrainingRun, Path]] = []
    for change in changes:
        settings, seed = apart_from_seed(change)
        of_recipe = ",".join(setting for setting in settings.split(",") if setting != UNIFORM)
        recipe = replace(changed(RECIPES[f"paper-{options.data}"], of_recipe), keep=options.keep)
        scheme = Uniform(train.units.count, options.keep)
        run = TrainingRun(train, recipe, scheme, default_encoding(train, recipe), seed, device)
        if of_recipe != settings:
            draw_norms(run.model, seed)
        name = re.sub("[=,/]", "-", change) or "as-published"
        runs.append((run, options.out / (f"fp32-{name}" if options.fp32 else name)))
    end = time.monotonic() + options.seconds
    with training_bar(f"training {len(runs)} networks") as on_progress:

        def until_the_end(done: int, steps: int, **metrics: float) -> None:
            on_progress(done, steps, **metrics)
            if time.monotonic() > end:
                raise Stop

        try:
            train_many(runs, on_progress=until_the_end)
        except Stop:
            print("stopped; the same command goes on from the checkpoints")
            sys.exit(3)
    return [folder for _, folder in runs]


def draw_norms(model: nn.Module, seed: int) -> None:
    """Draws the weights of batch norm from [0, 1)."""
    random = torch.Generator().manual_seed(seed)
    for part in model.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.weight.data.copy_(torch.rand(part.weight.shape, generator=random))


def certified(folder: Path, test: Dataset, n0: int, n: int, device: torch.device) -> Path:
    """The records of a trained variant on the test images, made or completed."""
    smoothed = Smoothed.load(folder, device=device, precision=native_precision(device))
    path = folder / f"certify-{n0}-{n}.jsonl"
    procedure = Fixed(n0, n, BOUND)
    with inputs_bar(f"certifying {folder.name}", len(test), n0 + n, "images", out=path) as on_progress:
        certify_dataset(smoothed, folder, test, path, procedure, alpha=ALPHA, seed=SEED, on_progress=on_progress)
    return path


def measured(path: Path) -> str:
    """The figures of a variant, from its records and its log; the votes that bound the probabilities also predict."""
    found = records.read(path)
    summary = summarise(found, bound="one-sided")
    answers = summary.classification
    copies = fmean(line.votes.votes[line.true] / line.votes.total for line in found.lines)
    log = records.read_bytes(find_records(path.parent / LOG_NAME) or path.parent / LOG_NAME)
    training = json.loads(log.splitlines()[-1])["accuracy"]
    return line((training, copies, answers.accuracy, answers.abstained), format_median(summary.median_reference))


def reported(data: str, keep: int) -> str:
    """What the paper reports, as far as it does."""
    figures: list[float | None] = [None, None, None, None]
    middle = "-"
    for base in published_base_accuracy("table-4").rows:
        if (data, keep) == ("cifar10", base.keep):
            figures[:2] = base.training, base.test
    for row in published(TABLES[data]).rows:
        if row.keep == keep:
            figures[2:], middle = (row.accuracy, row.abstained), "N/A" if row.median is None else str(row.median)
    return line([None if figure is None else figure / 100 for figure in figures], middle)


def line(shares: Sequence[float | None], middle: str) -> str:
    """Figures in columns, - where there is none."""
    training, copies, right, abstained = ("-" if share is None else f"{share:.2%}" for share in shares)
    return f"{training:>9} {copies:>14} {right:>8} {f'({abstained})':>8} {middle:>7}"


if __name__ == "__main__":
    main()
