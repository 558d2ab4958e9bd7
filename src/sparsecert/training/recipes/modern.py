"""This package's faster recipes, with techniques published since the paper."""

from __future__ import annotations

from sparsecert.registry import RECIPES
from sparsecert.training.recipe import Recipe

RECIPES.register("modern-cifar10")(
    Recipe(
        name="modern-cifar10",
        source="this package; chosen at k = 50 (rate, epochs) and 125 on the last 5,000 training images",
        model="resnet18-cifar",
        keep=75,
        epochs=50,
        batch=500,
        rates=((1, 0.2),),
        weight_decay=0.002,
        masks="sample",
        augment="crop-flip",
        schedule="one-cycle",
        warm_up=0.2,
        nesterov=True,
        precision="bf16",
        copies=2,
        consistency=1.0,
    )
)
RECIPES.register("modern-imagenette")(
    Recipe(
        name="modern-imagenette",
        source="this package; as modern-cifar10, nothing tuned",
        model="resnet50",
        keep=1000,
        epochs=60,
        batch=125,
        rates=((1, 0.1),),
        weight_decay=0.002,
        masks="sample",
        augment="resized-crop-flip",
        normalise=True,
        schedule="one-cycle",
        warm_up=0.2,
        nesterov=True,
        precision="bf16",
        copies=2,
        consistency=1.0,
    )
)
