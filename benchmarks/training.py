"""The speed of training residual networks on ablated inputs, relative to the device's peak.

Prints, for each recipe: ablated images a second after warm-up (a recipe with two copies per image counts both), the
FLOP/s (three times the forward pass's) and their share of those of large matrix products, and the time of the whole
recipe. Where Imagenette is found, the ImageNet network is also trained on its JPEG files, to show whether decoding is
the bottleneck. Otherwise images are noise, which does not affect the time.
"""

from __future__ import annotations

import argparse
import platform
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.speed import matrix_rate, seconds
from sparsecert import datasets
from sparsecert.datasets import ArrayImages, Dataset
from sparsecert.errors import InputError
from sparsecert.schemes import Uniform
from sparsecert.training import TrainingRun, default_encoding
from sparsecert.training.cuda_graph import step_function
from sparsecert.training.recipes import RECIPES, Recipe

SEED = 0
WARM = 6


@dataclass(frozen=True)
class Case:
    """A recipe, the network if not its own, the data it is for, and how many images a second are wanted on an H200."""

    recipe: str
    model: str
    size: int
    images: int
    bar: int | None = None

    @property
    def name(self) -> str:
        return f"{self.recipe}, {self.model}"


CASES = (
    Case("modern-cifar10", "resnet18-cifar", 32, 50_000, 45_000),
    Case("paper-cifar10", "resnet18-cifar", 32, 50_000),
    Case("modern-cifar10", "resnet50-cifar", 32, 50_000),
    Case("modern-imagenette", "resnet50", 224, 5_000),
    Case("paper-imagenet", "resnet50", 224, 1_281_167),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, help="steps that are timed (default: 40 on a GPU, else 1)")
    parser.add_argument("--batch", type=int, help="for a machine that the recipes' own are too large for")
    parser.add_argument("--only", nargs="+", metavar="RECIPE", help="which recipes")
    options = parser.parse_args()
    device = torch.device(options.device)
    gpu = device.type == "cuda"
    name = torch.cuda.get_device_name(device) if gpu else f"{platform.machine()}, {torch.get_num_threads()} threads"
    print(f"{name}, torch {torch.__version__}, seed {SEED}")
    rate = matrix_rate(device, torch.bfloat16)
    print(f"large matrix products, bf16: {rate / 1e12:.2f} TFLOP/s")
    for case in CASES:
        if options.only is None or case.recipe in options.only:
            measure(case, device, options.steps or (40 if gpu else 1), rate, options.batch)


def measure(case: Case, device: torch.device, steps: int, rate: float, batch: int | None) -> None:
    """Noise from memory, then photographs from their files where there are any."""
    recipe = replace(RECIPES[case.recipe], model=case.model)
    recipe = recipe if batch is None else replace(recipe, batch=batch)
    in_memory = replace(recipe, augment="none") if recipe.augment == "resized-crop-flip" else recipe
    count = min(case.images, (WARM + steps + 1) * recipe.batch)
    data = noise(case.size, -(-count // recipe.batch) * recipe.batch)
    from_memory, flops = trained(data, in_memory, device, steps)
    share = 3 * flops * from_memory / rate
    shown = recipe.epochs * case.images * recipe.copies
    epochs = f"{recipe.epochs} epochs of {case.images:,} images x {recipe.copies}: {shown / from_memory:,.0f} s"
    bar = ""
    if case.bar is not None and device.type == "cuda":
        bar = f"; bar {case.bar:,}: {'met' if from_memory >= case.bar else 'MISSED'}"
    print(f"\n{case.name}, batches of {recipe.batch} x {recipe.copies}, {recipe.precision}, one process")
    speed = f"{from_memory:,.0f} ablated images/s, {3 * flops * from_memory / 1e12:.1f} TFLOP/s"
    print(f"from memory: {speed}, {share:.1%}{bar}")
    print(f"  {epochs}")
    if recipe.augment == "resized-crop-flip":
        from_files(recipe, device, steps, from_memory)


def from_files(recipe: Recipe, device: torch.device, steps: int, from_memory: float) -> None:
    """The same network on Imagenette's JPEG files, decoded beside."""
    try:
        data = datasets.load("imagenette", "train")
    except InputError as error:
        print(f"from JPEG files: not measured, {error}")
        return
    rate, _ = trained(data, recipe, device, steps)
    share = f"{rate / from_memory:.1%} of the rate from memory"
    print(f"from {len(data):,} JPEG files of Imagenette: {rate:,.0f} ablated images/s, {share}")


def trained(data: Dataset, recipe: Recipe, device: torch.device, steps: int) -> tuple[float, int]:
    """Ablated images a second, and the floating-point operations of a forward pass of one."""
    scheme = Uniform(int(np.prod(data.images.shape[1:])), recipe.keep)
    run = TrainingRun(data, recipe, scheme, default_encoding(data, recipe), SEED, device)
    with closing(run):
        flops = operations(run)
        run.model.train()
        take_step = step_function([run])
        warm = warm_up(run, steps) if device.type == "cuda" else 1
        shown: list[int] = []

        def step() -> None:
            shown.append(run.batch)
            take_step([run])

        taken = seconds(step, device, steps, warm)
    return sum(shown[warm:]) * recipe.copies / (steps * taken), flops


def warm_up(run: TrainingRun, steps: int) -> int:
    """Steps before the first that is timed: an epoch's last batch, if smaller, is readied in the first two epochs.

    A whole data set ends so rarely that this does not count; some thousand images would end within the steps timed.
    """
    ends_within = run.epoch_steps < WARM + steps and len(run.data) % run.recipe.batch
    return 2 * run.epoch_steps + WARM if ends_within else WARM


def operations(run: TrainingRun) -> int:
    """Floating-point operations of the network for one input, by torch's own count."""
    channels = run.encoding.channels(run.data.images.shape[0])
    copy = torch.zeros(1, channels, *run.data.images.shape[1:], device=run.device)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        run.model.eval()(copy)
    return int(counter.get_total_flops())


def noise(size: int, count: int) -> Dataset:
    """Images and labels at random."""
    random = np.random.default_rng(SEED)
    images = ArrayImages(random.integers(0, 256, (count, 3, size, size), dtype=np.uint8))
    return Dataset("noise", "train", images, random.integers(0, 10, count), tuple("0123456789"), (0.5,) * 3, (0.2,) * 3)


if __name__ == "__main__":
    main()
