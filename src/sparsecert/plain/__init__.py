"""Plain classifiers, without smoothing or certificates, as baselines for attacks.

A CNN, the same on binarized images, an adversarially trained one (PGD, L-infinity), and the nearest neighbour.
"""

from __future__ import annotations

from sparsecert.plain.defenders import NEAREST_NEIGHBOUR, PlainNetwork, defender_for
from sparsecert.plain.files import is_plain, load, save
from sparsecert.plain.neighbours import NearestNeighbour
from sparsecert.plain.projected_gradient import projected_gradient
from sparsecert.plain.recipes import KINDS, PLAIN_RECIPES, PlainRecipe, plain_recipe
from sparsecert.plain.run import PlainRun
from sparsecert.plain.training import train_plain

__all__ = [
    "KINDS",
    "NEAREST_NEIGHBOUR",
    "PLAIN_RECIPES",
    "NearestNeighbour",
    "PlainNetwork",
    "PlainRecipe",
    "PlainRun",
    "defender_for",
    "is_plain",
    "load",
    "plain_recipe",
    "projected_gradient",
    "save",
    "train_plain",
]
