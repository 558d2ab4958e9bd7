"""Training recipes: the paper's, and this package's faster ones."""

from __future__ import annotations

from dataclasses import replace

from sparsecert.inputs.images import ArrayImages, Dataset
from sparsecert.registry import DATASETS, RECIPES
from sparsecert.training.recipe import OF_THE_DATA, Recipe

__all__ = ["RECIPES", "Recipe", "recipe_for"]


SMALLEST_PHOTOGRAPH = 96  # the longer side of images that are not small


def recipe_for(data: str | Dataset, name: str | None = None) -> Recipe:
    """The recipe of that name, or the one that goes with the data set.

    A recipe for any data set takes what depends on it from the data set's own one.
    """
    own = _own_recipe(data)
    recipe = own if name is None else RECIPES[name]
    return recipe if recipe.model else replace(recipe, **{part: getattr(own, part) for part in OF_THE_DATA})


def _own_recipe(data: str | Dataset) -> Recipe:
    """The recipe that goes with a data set.

    Of one's own data, given itself and not by its name, that is the recipe of the data set whose images are alike in
    size: the digits, MNIST, CIFAR-10 or ImageNet. Masks retain the same share of the pixels as there, and images in
    memory are shifted where those of a folder are cropped.
    """
    known = data if isinstance(data, str) else data.name
    if known in DATASETS or isinstance(data, str):
        return RECIPES[DATASETS[known].recipe if known in DATASETS else "paper-imagenet"]
    height, width = data.shape[1:]
    alike = {(8, 8): "digits", (28, 28): "mnist"}.get((height, width))
    if alike is None:
        alike = "cifar10" if max(height, width) <= SMALLEST_PHOTOGRAPH else "imagenet"
    recipe, side = RECIPES[DATASETS[alike].recipe], {"digits": 8, "mnist": 28, "cifar10": 32, "imagenet": 224}[alike]
    if recipe.augment == "resized-crop-flip" and isinstance(data.images, ArrayImages):
        recipe = replace(recipe, augment="crop-flip")
    return replace(recipe, keep=max(1, round(recipe.keep * height * width / side**2)))
