"""Recipes that end by training the vote itself."""

from __future__ import annotations

from dataclasses import replace

from sparsecert.registry import RECIPES
from sparsecert.training.recipe import Recipe, VoteObjective
from sparsecert.training.recipes.modern import CIFAR10

RECIPES.register("vote-mnist")(
    Recipe(
        name="vote-mnist",
        source="this package; chosen on the last 5,000 training images",
        model="per-mask",
        keep=45,
        epochs=200,
        batch=1_000,
        rates=((1, 0.002),),
        weight_decay=0.0001,
        masks="all",
        scheme="spread-160",
        schedule="one-cycle",
        warm_up=0.02,
        precision="bf16",
        optimizer="adamw",
        vote=VoteObjective(epochs=160, rate=0.001, target=0.3),
    )
)
RECIPES.register("vote-mnist-random")(
    Recipe(
        name="vote-mnist-random",
        source="this package; chosen at k = 12 on the last 5,000 training images",
        model="pixel-transformer",
        keep=8,
        epochs=80,
        batch=1_000,
        rates=((1, 0.001),),
        weight_decay=0.01,
        masks="sample",
        schedule="one-cycle",
        warm_up=0.05,
        precision="bf16",
        copies=16,
        optimizer="adamw",
        vote=VoteObjective(epochs=48, rate=0.0005, target=0.35),
    )
)
RECIPES.register("vote-cifar10-random")(
    replace(
        CIFAR10,
        name="vote-cifar10-random",
        source="this package; its losses chosen on the last 5,000 training images",
        keep=16,
        epochs=70,
        copies=4,
        vote=VoteObjective(epochs=10, rate=0.004, target=0.35, cross_entropy=0.1),
    )
)
