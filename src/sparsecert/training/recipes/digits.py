"""The recipe for the digits that ship with the package."""

from __future__ import annotations

from sparsecert.registry import RECIPES
from sparsecert.training.recipe import Recipe

RECIPES.register("digits")(
    Recipe(
        name="digits",
        source="this package; keep chosen on the last 297 training images",
        model="digits-cnn",
        keep=10,
        epochs=150,
        batch=64,
        rates=((1, 0.05), (101, 0.005)),
        masks="sample",
    )
)
