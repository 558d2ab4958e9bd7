"""Recipes: how a base classifier is trained. The paper's own, by name, and one for the built-in digits."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from sparsecert.errors import InputError

MASKS = "minibatch", "sample"
AUGMENTATIONS = "none", "crop-flip", "resized-crop-flip"


@dataclass(frozen=True)
class Recipe:
    """SGD with momentum on ablated inputs, the learning rate piecewise constant.

    rates: (first epoch, learning rate) pairs, epochs counted from 1. masks: "minibatch" draws one mask for all inputs
    of a minibatch, as the paper does; "sample" draws one for each. augment: "crop-flip" shifts by up to 4 pixels and
    flips; "resized-crop-flip" takes a random part of the photograph (image folders only).
    """

    name: str
    source: str
    model: str
    keep: int
    epochs: int
    batch: int
    rates: tuple[tuple[int, float], ...]
    momentum: float = 0.9
    weight_decay: float = 0.0
    masks: str = "minibatch"
    augment: str = "none"
    normalise: bool = False

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "keep"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.masks not in MASKS:
            raise InputError(f"masks must be one of {', '.join(MASKS)}, got {self.masks!r}")
        if self.augment not in AUGMENTATIONS:
            raise InputError(f"augment must be one of {', '.join(AUGMENTATIONS)}, got {self.augment!r}")

    def rate(self, epoch: int) -> float:
        """The learning rate of an epoch, counted from 1."""
        return [rate for first, rate in self.rates if first <= epoch][-1]

    def shortened(self, epochs: int | None) -> Recipe:
        """The same recipe over fewer or more epochs, the learning rate falling at the same shares of it.

        Each rate has at least an epoch, while there are any left.
        """
        if epochs is None or epochs == self.epochs:
            return self
        rates = [self.rates[0]]
        for first, rate in self.rates[1:]:
            rates.append((max(rates[-1][0] + 1, 1 + round((first - 1) * epochs / self.epochs)), rate))
        return replace(self, epochs=epochs, rates=tuple(rates))

    def to_dict(self) -> dict[str, Any]:
        """JSON values, for headers."""
        return {**asdict(self), "rates": [list(pair) for pair in self.rates]}


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            name="paper-mnist",
            source="Levine & Feizi 2020, appendix, architecture and training parameters for MNIST",
            model="mnist-cnn",
            keep=45,
            epochs=400,
            batch=128,
            rates=((1, 0.01), (201, 0.001)),
        ),
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
        ),
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
        ),
        Recipe(
            name="digits",
            source="this package; keep chosen on the last 297 training images",
            model="digits-cnn",
            keep=10,
            epochs=150,
            batch=64,
            rates=((1, 0.05), (101, 0.005)),
            masks="sample",
        ),
    )
}

DEFAULTS = {"digits": "digits", "mnist": "paper-mnist", "cifar10": "paper-cifar10"}


def recipe_for(data: str, name: str | None = None) -> Recipe:
    """The recipe of that name, or the one that goes with the data set."""
    name = name or DEFAULTS.get(data, "paper-imagenet")
    if name not in RECIPES:
        raise InputError(f"recipe must be one of {', '.join(RECIPES)}, got {name!r}")
    return RECIPES[name]
