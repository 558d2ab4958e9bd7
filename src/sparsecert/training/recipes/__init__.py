"""Training recipes: the paper's, and this package's faster ones."""

from __future__ import annotations

from dataclasses import replace

from sparsecert.registry import DATASETS, RECIPES
from sparsecert.training.recipe import OF_THE_DATA, Recipe

__all__ = ["RECIPES", "Recipe", "recipe_for"]


def recipe_for(data: str, name: str | None = None) -> Recipe:
    """The recipe of that name, or the one that goes with the data set.

    A recipe for any data set takes what depends on it from the data set's own one.
    """
    own = DATASETS[data].recipe if data in DATASETS else "paper-imagenet"
    recipe = RECIPES[name or own]
    return recipe if recipe.model else replace(recipe, **{part: getattr(RECIPES[own], part) for part in OF_THE_DATA})
