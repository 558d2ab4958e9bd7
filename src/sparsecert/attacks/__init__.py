"""Attacks: upper bounds beside the certificates' lower ones.

Each is a frozen set of settings, called as attack(defender, images, labels, bounds=..., budget=..., seed=...). It
reaches the defender only through a judge, which counts, keeps within bounds and budget, and decides.
"""

from __future__ import annotations

from sparsecert.attacks.all_masks import AllMasks
from sparsecert.attacks.attack import Attack, Outcome, attack_named
from sparsecert.attacks.carlini_wagner import CarliniWagnerL0
from sparsecert.attacks.defenders import ABSTAINS, Answers, Defender, Estimator, Network, SmoothedDefender
from sparsecert.attacks.jsma import JSMA
from sparsecert.attacks.judge import NEVER, Judge
from sparsecert.attacks.noise import UniformNoise
from sparsecert.attacks.pointwise import Pointwise
from sparsecert.attacks.saliency import Saliency
from sparsecert.attacks.sparse_rs import SparseRS
from sparsecert.attacks.surrogate import CommonMasks
from sparsecert.registry import ATTACKS

__all__ = [
    "ABSTAINS",
    "ATTACKS",
    "JSMA",
    "NEVER",
    "AllMasks",
    "Answers",
    "Attack",
    "CarliniWagnerL0",
    "CommonMasks",
    "Defender",
    "Estimator",
    "Judge",
    "Network",
    "Outcome",
    "Pointwise",
    "Saliency",
    "SmoothedDefender",
    "SparseRS",
    "UniformNoise",
    "attack_named",
]
