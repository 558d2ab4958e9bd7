"""Plain classifiers, without smoothing or certificates, as baselines for attacks.

A CNN, the same on binarized images, an adversarially trained one (PGD, L-infinity), analysis by synthesis (ABS), and
the nearest neighbour.
"""

from __future__ import annotations

from sparsecert.plain.autoencoder_run import BINARIZED_NAME, AutoencoderRun
from sparsecert.plain.autoencoders import Autoencoders
from sparsecert.plain.defenders import NEAREST_NEIGHBOUR, PlainNetwork, SynthesisDefender, defender_for
from sparsecert.plain.files import is_plain, load, save
from sparsecert.plain.neighbours import NearestNeighbour
from sparsecert.plain.projected_gradient import projected_gradient
from sparsecert.plain.recipes import PLAIN_RECIPES, AutoencoderRecipe, PlainRecipe, plain_recipe
from sparsecert.plain.run import PlainRun
from sparsecert.plain.synthesis import AnalysisBySynthesis
from sparsecert.plain.training import train_plain

__all__ = [
    "BINARIZED_NAME",
    "NEAREST_NEIGHBOUR",
    "PLAIN_RECIPES",
    "AnalysisBySynthesis",
    "AutoencoderRecipe",
    "AutoencoderRun",
    "Autoencoders",
    "NearestNeighbour",
    "PlainNetwork",
    "PlainRecipe",
    "PlainRun",
    "SynthesisDefender",
    "defender_for",
    "is_plain",
    "load",
    "plain_recipe",
    "projected_gradient",
    "save",
    "train_plain",
]
