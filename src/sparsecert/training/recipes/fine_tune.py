"""The recipe that makes a pretrained network a base classifier, on any data set."""

from __future__ import annotations

from sparsecert.registry import RECIPES
from sparsecert.training.recipe import Recipe

RECIPES.register("fine-tune")(
    Recipe(
        name="fine-tune",
        source="this package; nothing tuned",
        model="",
        keep=0,
        epochs=5,
        batch=128,
        rates=((1, 0.0005),),
        weight_decay=0.0001,
        masks="sample",
        schedule="one-cycle",
        warm_up=0.2,
        optimizer="adamw",
    )
)
