"""Training recipes: the paper's, and this package's faster ones."""

from __future__ import annotations

from sparsecert.registry import DATASETS, RECIPES
from sparsecert.training.recipe import Recipe

__all__ = ["RECIPES", "Recipe", "recipe_for"]


def recipe_for(data: str, name: str | None = None) -> Recipe:
    """The recipe of that name, or the one that goes with the data set."""
    return RECIPES[name or (DATASETS[data].recipe if data in DATASETS else "paper-imagenet")]
