"""Recipes whose parts learn independently, for certificates that cover perturbed training values too."""

from __future__ import annotations

from sparsecert.registry import RECIPES
from sparsecert.training.recipe import Recipe

RECIPES.register("independent-mnist")(
    Recipe(
        name="independent-mnist",
        source="this package; as the first part of vote-mnist, nothing tuned",
        model="per-mask",
        keep=45,
        epochs=60,
        batch=1_000,
        rates=((1, 0.002),),
        weight_decay=0.0001,
        masks="all",
        scheme="spread-60",
        schedule="one-cycle",
        warm_up=0.02,
        optimizer="adamw",
        independent=True,
    )
)
