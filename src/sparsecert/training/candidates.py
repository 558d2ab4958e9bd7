"""Which masks are worth trying where a certain radius is wanted."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from sparsecert.datasets import Dataset
from sparsecert.errors import InputError
from sparsecert.schemes import SchemeSpec, Uniform
from sparsecert.training import held_out
from sparsecert.training.recipe import Recipe

UNIFORM_SHARES = 0.2, 0.4, 0.6, 0.8  # of the largest k that can certify the radius
LATTICE_SHARES = 0.4, 0.6
HALF = Fraction(1, 2)
QUICK_RATE = 0.003


def candidates(shape: Sequence[int], radius: int) -> list[SchemeSpec]:
    """Random masks and lattices for images of this shape, whose masks retain from few to many pixels.

    A radius is certified only where delta(radius) < 1/2, so that random masks retain k pixels or fewer. A lattice has
    delta(radius) = radius / parts, and so more than 2 * radius parts.
    """
    _, height, width = shape
    units = height * width
    most = bisect_left(range(units), True, key=lambda keep: Uniform(units, keep + 1).delta(radius) >= HALF)
    if not most:
        raise InputError(f"radius must be below half of the {units} pixels, or nothing is certified; got {radius}")
    keeps = sorted({max(1, round(share * most)) for share in UNIFORM_SHARES})
    nearby = {_lattice_parts(height, width, round(2 * radius / share)) for share in LATTICE_SHARES}
    parts = sorted(number for number in nearby if number is not None)
    return [
        *(SchemeSpec("uniform", keep=keep) for keep in keeps),
        *(SchemeSpec("lattice", parts=number) for number in parts),
    ]


def _lattice_parts(height: int, width: int, wanted: int) -> int | None:
    """The first number of parts from `wanted` on that have equal sizes; None if an image has none nearby."""
    for parts in range(wanted, min(2 * wanted, height * width) + 1):
        try:
            len(SchemeSpec("lattice", parts=parts).of(height, width).table)  # type: ignore[attr-defined]
        except InputError:
            continue
        return parts
    return None


def brief(data: Dataset, recipe: Recipe, steps: int) -> tuple[Dataset, Recipe]:
    """The images and the recipe of a run of about so many steps, never longer than the recipe's own.

    Whole epochs; of images that are too many for one, evenly spaced ones.
    """
    data = held_out.part(data, data.spaced_indices(steps * recipe.batch))
    epochs = round(steps / -(-len(data) // recipe.batch))
    return data, recipe.shortened(min(recipe.epochs, max(1, epochs)))


def quick(recipe: Recipe) -> Recipe:
    """The recipe's network, images and batches, trained to get far in few steps: AdamW over one cycle."""
    return replace(
        recipe,
        optimizer="adamw",
        rates=((1, QUICK_RATE),),
        weight_decay=0.0001,
        schedule="one-cycle",
        warm_up=0.2,
        masks="sample",
        vote=None,
    )
