"""Attacks of 2024 and 2025 on one plain CIFAR-10 network: how many pixels each needs, and accuracy within a budget.

Trains a ResNet-18 without ablation and attacks evenly spaced test images. For the figures of Zhong et al. (2024),
compare the accuracy within 20 pixels (`--pixels`) of sparse-pgd and sparse-autoattack; for those of Cinà et al. (2025),
which count channels, sigma-zero on features: its median, and the share fooled within 24, 50 and 100.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from torch import nn

from benchmarks.foolbox_pointwise import AttackResult, part, trained
from sparsecert import datasets, models
from sparsecert.attacks import (
    NOT_FOUND,
    Attack,
    Ensemble,
    Network,
    Pointwise,
    Saliency,
    SigmaZero,
    SparseAutoAttack,
    SparsePGD,
    SparseRS,
)
from sparsecert.errors import InputError

FEATURES = 24, 50, 100  # the budgets of Cinà et al.


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=200, help="evenly spaced test images")
    parser.add_argument("--pixels", type=int, default=20, help="the budget for which accuracy is printed")
    parser.add_argument("--steps", type=int, default=1_000, help="gradient steps, or queries, of each attack")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--model", default="resnet18-cifar")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    try:
        train, test = (datasets.load("cifar10", split) for split in ("train", "test"))
    except InputError as error:
        parser.exit(2, f"error: {error}\n")
    device, steps = torch.device(options.device), options.steps
    model = trained(train, models.build(options.model, 3, 10), options.epochs, options.seed, device).eval()
    images, labels = part(test, test.spaced_indices(options.images))
    print(
        f"{options.model}, {options.epochs} epochs, {len(images)} images, {steps} steps, seed {options.seed}",
        flush=True,
    )
    attacks: dict[str, Attack] = {
        "sigma-zero": SigmaZero(steps),
        "sparse-pgd": SparsePGD(steps),
        "sparse-pgd, projected": SparsePGD(steps, projected=True),
        "sparse-rs": SparseRS(steps),
        "sparse-autoattack": SparseAutoAttack(steps, steps),
        "ensemble": Ensemble(),
        "saliency": Saliency(),
        "pointwise": Pointwise(restarts=1),
    }
    for name, attack in attacks.items():
        found = by(attack, model, images, labels, options.seed, device)
        within = (found.distances > options.pixels).mean()
        print(f"{found.line(name)}; accuracy {within:.1%} within {options.pixels} pixels", flush=True)
    found = by(SigmaZero(steps), model, images.flatten(1), labels, options.seed, device)
    shares = ", ".join(f"{(found.distances <= budget).mean():.1%} within {budget}" for budget in FEATURES)
    print(f"{found.line('sigma-zero on features')}; fooled: {shares}")


def by(
    attack: Attack, model: nn.Module, images: torch.Tensor, labels: torch.Tensor, seed: int, device: torch.device
) -> AttackResult:
    """All images at once; flat ones have a channel for each feature."""
    began = time.perf_counter()
    found = attack(Network(lambda shown: model(shown.view(-1, 3, 32, 32)), device), images, labels, seed=seed)
    distances = torch.where(found.distances == NOT_FOUND, torch.inf, found.distances.double()).numpy()
    return AttackResult(distances.astype(np.float64), int(found.queries.sum()), time.perf_counter() - began)


if __name__ == "__main__":
    main()
