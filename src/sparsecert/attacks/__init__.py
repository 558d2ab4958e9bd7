"""Attacks: upper bounds on robustness, beside the certificates' lower bounds.

Each is a frozen dataclass, called as attack(defender, images, labels, bounds=..., budget=..., seed=...). It reaches the
defender only through a judge, which counts queries, enforces bounds and budget, and decides success.
"""

from __future__ import annotations

from sparsecert.attacks.all_masks import AllMasks
from sparsecert.attacks.attack import Attack, Outcome, attack_named
from sparsecert.attacks.carlini_wagner import CarliniWagnerL0
from sparsecert.attacks.defenders import (
    ABSTAINS,
    Answers,
    Defender,
    Estimator,
    Network,
    NoGradients,
    SmoothedDefender,
)
from sparsecert.attacks.ensemble import Ensemble
from sparsecert.attacks.jsma import JSMA
from sparsecert.attacks.judge import NOT_FOUND, Judge
from sparsecert.attacks.noise import UniformNoise
from sparsecert.attacks.pointwise import Pointwise
from sparsecert.attacks.saliency import Saliency
from sparsecert.attacks.sigma_zero import SigmaZero
from sparsecert.attacks.sparse_autoattack import SparseAutoAttack
from sparsecert.attacks.sparse_pgd import SparsePGD
from sparsecert.attacks.sparse_rs import SparseRS
from sparsecert.attacks.surrogate import SurrogateDefender
from sparsecert.attacks.word_substitution import WordSubstitution
from sparsecert.records.attack_records import ANY, MISCLASSIFY
from sparsecert.registry import ATTACKS

__all__ = [
    "ABSTAINS",
    "ANY",
    "ATTACKS",
    "JSMA",
    "MISCLASSIFY",
    "NOT_FOUND",
    "AllMasks",
    "Answers",
    "Attack",
    "CarliniWagnerL0",
    "Defender",
    "Ensemble",
    "Estimator",
    "Judge",
    "Network",
    "NoGradients",
    "Outcome",
    "Pointwise",
    "Saliency",
    "SigmaZero",
    "SmoothedDefender",
    "SparseAutoAttack",
    "SparsePGD",
    "SparseRS",
    "SurrogateDefender",
    "UniformNoise",
    "WordSubstitution",
    "attack_named",
]
