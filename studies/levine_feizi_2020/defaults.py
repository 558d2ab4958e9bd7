"""How the models of a data set are trained and measured unless a study's settings say otherwise."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Defaults:
    """A recipe, and which test inputs are certified: `limit` of them (None: all), evenly spaced or drawn at random.

    `predicts`: accuracy comes from separate votes, as in the paper. Otherwise it comes from the estimation votes, by
    the same rule: as many independent copies, so the same distribution, at half the cost.
    """

    recipe: str
    limit: int | None = None
    random: bool = False
    predicts: bool = False


PHOTOGRAPHS = Defaults("paper-imagenet", limit=400, random=True)  # ImageNet, and any folder in its layout
DEFAULTS = {
    "mnist": Defaults("paper-mnist", predicts=True),
    "cifar10": Defaults("modern-cifar10", limit=1_000),
    "imagenette": Defaults("modern-imagenette", limit=400, random=True),
    "imagenet": PHOTOGRAPHS,
}
PAPER_RECIPES = {"mnist": "paper-mnist", "cifar10": "paper-cifar10"}


def defaults_for(data: str) -> Defaults:
    """The defaults of this data set, given by its name or its folder."""
    return DEFAULTS.get(data, PHOTOGRAPHS)


def paper_recipe(data: str) -> str:
    """The name of the recipe that the paper gives for such data."""
    return PAPER_RECIPES.get(data, "paper-imagenet")
