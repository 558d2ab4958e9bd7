"""The recipes of the paper."""

from __future__ import annotations

from sparsecert.registry import RECIPES
from sparsecert.training.recipe import Recipe

RECIPES.register("paper-mnist")(
    Recipe(
        name="paper-mnist",
        source="Levine & Feizi 2020, appendix, architecture and training parameters for MNIST",
        model="mnist-cnn",
        keep=45,
        epochs=400,
        batch=128,
        rates=((1, 0.01), (201, 0.001)),
    )
)
RECIPES.register("paper-cifar10")(
    Recipe(
        name="paper-cifar10",
        source="Levine & Feizi 2020, appendix, training parameters for CIFAR-10",
        model="resnet18-cifar",
        keep=75,
        epochs=400,
        batch=128,
        rates=((1, 0.01), (201, 0.001)),
        weight_decay=0.0005,
        augment="crop-flip",
    )
)
RECIPES.register("paper-imagenet")(
    Recipe(
        name="paper-imagenet",
        source="Levine & Feizi 2020, appendix, training parameters for ImageNet; channels normalised (footnote 1)",
        model="resnet50",
        keep=1000,
        epochs=36,
        batch=256,
        rates=((1, 0.1), (22, 0.01), (32, 0.001)),
        weight_decay=0.0001,
        augment="resized-crop-flip",
        normalise=True,
    )
)
