"""Estimates how long a table takes on several GPUs, from measured rates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sparsecert.errors import InputError
from sparsecert.training.recipes import RECIPES

Step = tuple[str, float]  # what is done, and the seconds it takes on one GPU


@dataclass(frozen=True)
class Rates:
    """Throughput of one GPU per second, as `python -m benchmarks.training` and `benchmarks.engine` print it."""

    training: float  # ablated images trained on
    certifying: float  # ablated copies classified

    def __post_init__(self) -> None:
        for name in ("training", "certifying"):
            if not 0 < getattr(self, name) < math.inf:
                raise InputError(f"the rate of {name} must be a number above 0, got {getattr(self, name)}")


@dataclass(frozen=True)
class Plan:
    """Training a recipe on a data set for several k, then certifying images with the paper's numbers of samples."""

    name: str
    recipe: str
    images: int
    keeps: tuple[int, ...]
    certified: int
    held_out: int
    n0: int = 1_000
    n: int = 10_000

    def steps(self, rates: Rates) -> Iterator[Step]:
        """Each part of the work for one k, then the whole table: training, prediction and certification for every k."""
        recipe = RECIPES[self.recipe]
        trained = recipe.epochs * self.images * recipe.copies / rates.training
        copies = f"{self.n0:,} + {self.n:,} copies"
        few, all_of_them = (
            number * (self.n0 + self.n) / rates.certifying for number in (self.certified, self.held_out)
        )
        predicted = self.certified * self.n / rates.certifying
        yield f"training one k: {recipe.epochs} epochs of {self.images:,} images", trained
        yield f"predicting {self.certified:,} images, {self.n:,} copies of each", predicted
        yield f"certifying {self.certified:,} images, {copies} of each", few
        yield f"certifying all {self.held_out:,} held-out images likewise", all_of_them
        keeps = ", ".join(f"{keep:,}" for keep in self.keeps)
        yield f"the whole table, k = {keeps}: the first three for each", len(self.keeps) * (trained + predicted + few)


PLANS = {
    "imagenet": Plan("ImageNet (ILSVRC 2012)", "paper-imagenet", 1_281_167, (500, 1_000, 2_000), 400, 50_000),
}


def find_plan(name: str) -> Plan:
    if name not in PLANS:
        raise InputError(f"plan must be one of {', '.join(PLANS)}, got {name!r}")
    return PLANS[name]


def format_plan(plan: Plan, rates: Rates, gpus: Sequence[int] = (1, 8)) -> str:
    """One line per step with its time on each number of GPUs, the work divided equally."""
    if not gpus or min(gpus) < 1:
        raise InputError(f"numbers of GPUs must be at least 1, got {list(gpus)}")
    steps = list(plan.steps(rates))
    width = max(len(what) for what, _ in steps)
    heads = "".join(f"{'1 GPU' if number == 1 else f'{number} GPUs':>12}" for number in gpus)
    lines = [
        f"{plan.name}, recipe {plan.recipe} ({RECIPES[plan.recipe].model})",
        f"rates of one GPU: {rates.training:,.0f} ablated images/s in training, "
        f"{rates.certifying:,.0f} ablated copies/s in certifying",
        "",
        " " * width + heads,
        *(
            what.ljust(width) + "".join(f"{format_duration(took / number):>12}" for number in gpus)
            for what, took in steps
        ),
        "",
        "Inputs are certified independently, so their time falls with the number of GPUs (--shard, --ray).",
        "Training on several GPUs (torchrun) also exchanges gradients and batch statistics, which is not included.",
    ]
    return "\n".join(lines)


def format_duration(seconds: float) -> str:
    """In seconds, minutes, hours or days, whichever suits."""
    for unit, size, least in (("d", 86_400, 2 * 86_400), ("h", 3_600, 2 * 3_600), ("min", 60, 120)):
        if seconds >= least:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:,.1f} s"
