"""Recipes for grids, for deterministic certificates."""

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
        epochs=40,
        batch=250,
        rates=((1, 0.1),),
        augment="resized-crop-flip",
        scheme="grid-28",
        copies=4,
        consistency=0.0,
    )
)
RECIPES.register("grid-cifar10")(
    replace(
        CIFAR10,
        name="grid-cifar10",
        source="this package; model, masks and augmentation chosen on the last 5,000 training images",
        model="grid-resnet-wide",
        keep=16,
        epochs=80,
        augment="reflected-crop-flip",
        scheme="grid-8",
        copies=8,
        consistency=3.0,
    )
)
