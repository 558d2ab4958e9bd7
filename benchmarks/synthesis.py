"""The cost of analysis by synthesis on this machine: a training step, and a query of an attack.

    python -m benchmarks.synthesis

Random weights and the digits that ship, so no data are needed. Prints milliseconds for a training step of all
autoencoders, and for images a batch: the search of the candidates, a query about one label, and the whole inference;
and what a whole training, accuracy and attack take at that rate.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from dataclasses import replace

import torch

from sparsecert import datasets
from sparsecert.plain import AnalysisBySynthesis, AutoencoderRecipe, AutoencoderRun, Autoencoders, plain_recipe
from sparsecert.training.cuda_graph import step_function

TEST_IMAGES, FEW = 10_000, 256


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch", type=int, default=128, help="images of each class in a training step")
    parser.add_argument("--images", type=int, default=2_750, help="asked about at once: images under attack x restarts")
    parser.add_argument("--candidates", type=int, default=8_000)
    parser.add_argument("--steps", type=int, default=50, help="of the descent")
    parser.add_argument("--repeats", type=int, default=5, help="of a query; ten times as many training steps")
    parser.add_argument("--queries", type=int, default=2_500_000, help="of a whole attack, for the estimate")
    options = parser.parse_args()
    device = torch.device(options.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    print(f"{name}, torch {torch.__version__}, {options.candidates:,} candidates, {options.steps} steps")
    seconds, recipe = training(options, device), plain_recipe("mnist", "abs")
    steps = recipe.epochs * -(-60_000 // (10 * recipe.batch))
    print(f"{1000 * seconds:.2f} ms a training step, {steps * seconds / 60:.1f} minutes for {steps:,}")
    search, few, query, whole = inference(options, device)
    times = {"search": search, f"query of {FEW}": few, "query": query, "whole": whole}
    each = ", ".join(f"{kind} {1000 * seconds:.1f} ms" for kind, seconds in times.items())
    tested, attacked = (count / options.images for count in (TEST_IMAGES, options.queries))
    print(
        f"{options.images:,} images: {each}; {TEST_IMAGES:,} test images {tested * whole:.0f} s, "
        f"{options.queries:,} queries {attacked * query / 60:.1f} minutes"
    )


def timed(work: Callable[[], object], repeats: int, device: torch.device) -> float:
    """Seconds of one call, after two to warm up."""
    for number in range(repeats + 2):
        if number == 2:
            _wait(device)
            begun = time.perf_counter()
        work()
    _wait(device)
    return (time.perf_counter() - begun) / repeats


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def training(options: argparse.Namespace, device: torch.device) -> float:
    """Seconds of a training step."""
    recipe, data = plain_recipe("mnist", "abs"), datasets.load("mnist-sample")
    assert isinstance(recipe, AutoencoderRecipe)
    run = AutoencoderRun(data, replace(recipe, batch=options.batch), 0, device, data)
    run.model.train()
    take_step = step_function([run])
    return timed(lambda: take_step([run]), 10 * options.repeats, device)


def inference(options: argparse.Namespace, device: torch.device) -> tuple[float, ...]:
    """Seconds for a batch of images: the search of the candidates, a query about one label, of few too, the whole."""
    model = Autoencoders(candidates=options.candidates, steps=options.steps).eval()
    synthesis = AnalysisBySynthesis(model, device)
    sample = datasets.load("mnist-sample")
    places = torch.arange(options.images) % len(sample)
    images = (torch.from_numpy(sample.images.batch(places.numpy())).float() / 255).to(device)
    labels = torch.from_numpy(sample.labels)[places].to(device)
    works: tuple[Callable[[], object], ...] = (
        lambda: synthesis.search(images.flatten(1)),
        lambda: synthesis(images[:FEW], labels[:FEW]),
        lambda: synthesis(images, labels),
        lambda: synthesis(images),
    )
    return tuple(timed(work, options.repeats, device) for work in works)


if __name__ == "__main__":
    main()
