"""Recipes for grids of large images, for deterministic certificates."""

from __future__ import annotations

from dataclasses import replace

from sparsecert.registry import RECIPES
from sparsecert.training.recipes.modern import CIFAR10

RECIPES.register("grid-imagenette")(
    replace(
        CIFAR10,
        name="grid-imagenette",
        source="this package; chosen on every fifth training image",
        model="grid-resnet",
        keep=64,
        epochs=100,
        batch=250,
        rates=((1, 0.1),),
        augment="resized-crop-flip",
        scheme="grid-28",
        copies=4,
        consistency=0.0,
    )
)
