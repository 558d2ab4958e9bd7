"""Attacks of 2024 and 2025 on one plain network: how many pixels each needs, and accuracy within a budget.

Trains a network without ablation, by default a ResNet-18 on CIFAR-10, and attacks evenly spaced test images. For the
figures of Zhong et al. (2024), compare the accuracy within 20 pixels (`--pixels`) of sparse-pgd and sparse-autoattack;
for those of Cinà et al. (2025), which count channels, sigma-zero on features: its median, and the share fooled within
24, 50 and 100. Where adv-lib is installed (`pip install adv-lib`), its sigma-zero attacks the same images, and so does
the Sparse-PGD of its authors where `--spgd` names a copy of their program.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import nn

from benchmarks.foolbox_pointwise import AttackResult, CountingNetwork, part, trained
from sparsecert import datasets, models
from sparsecert.attacks import (
    NOT_FOUND,
    Attack,
    Ensemble,
    Pointwise,
    Saliency,
    SigmaZero,
    SparseAutoAttack,
    SparsePGD,
    SparseRS,
)
from sparsecert.errors import InputError
from sparsecert.plain import PlainNetwork

FEATURES = 24, 50, 100  # the budgets of Cinà et al.
FEW_PIXELS = 2, 5  # budgets that leave a plain network some accuracy
NETWORKS = {"cifar10": "resnet18-cifar", "mnist": "mnist-cnn"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=200, help="evenly spaced test images")
    parser.add_argument("--pixels", type=int, default=20, help="the budget for which accuracy is printed")
    parser.add_argument("--steps", type=int, default=1_000, help="gradient steps, or queries, of each attack")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--data", default="cifar10", choices=list(NETWORKS))
    parser.add_argument("--model", help="the network (default: the paper's for the data)")
    parser.add_argument("--spgd", type=Path, help="the folder autoattack/ of github.com/CityU-MLO/sPGD")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    try:
        train, test = (datasets.load(options.data, split) for split in ("train", "test"))
    except InputError as error:
        parser.exit(2, f"error: {error}\n")
    device, steps = torch.device(options.device), options.steps
    name = options.model or NETWORKS[options.data]
    network = models.build(name, test.shape[0], len(test.classes))
    model = trained(train, network, options.epochs, options.seed, device).eval().requires_grad_(False)
    images, labels = part(test, test.spaced_indices(options.images))
    print(f"{name}, {options.epochs} epochs, {len(images)} images, {steps} steps, seed {options.seed}", flush=True)
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
    if options.spgd is not None:
        budgets = sorted({*FEW_PIXELS, options.pixels})
        for line in beside_theirs(options.spgd, model, images, labels, steps, budgets, options.seed):
            print(line, flush=True)
    whole = nn.Sequential(nn.Unflatten(1, test.shape), model)  # features are pixels of one channel
    found = by(SigmaZero(steps), whole, images.flatten(1), labels, options.seed, device)
    shares = ", ".join(f"{(found.distances <= budget).mean():.1%} within {budget}" for budget in FEATURES)
    print(f"{found.line('sigma-zero on features')}; fooled: {shares}", flush=True)
    if find_spec("adv_lib") is not None:
        theirs = by_adv_lib(model, images.to(device), labels.to(device), steps)
        no_worse, better = (found.distances <= theirs.distances).mean(), (found.distances < theirs.distances).mean()
        print(theirs.line("sigma-zero of adv-lib, on features"))
        print(f"  ours no worse for {no_worse:.0%} of the images, better for {better:.0%}")


def beside_theirs(
    folder: Path,
    model: nn.Module,
    images: torch.Tensor,
    labels: torch.Tensor,
    steps: int,
    budgets: list[int],
    seed: int,
) -> Iterator[str]:
    """The accuracy that Sparse-PGD leaves for each budget of pixels, by the authors' program and by ours."""
    sys.path.insert(0, str(folder))
    theirs, device = importlib.import_module("spgd").SparsePGD, next(model.parameters()).device
    for pixels in budgets:
        for projected in (False, True):
            torch.manual_seed(seed)
            attack = theirs(model, k=pixels, t=steps, unprojected_gradient=not projected)
            found = attack(images.to(device), labels.to(device))[0]
            with torch.no_grad():
                left = (model(found).argmax(dim=1).cpu() == labels).float().mean()
            ours = by(SparsePGD(steps, projected=projected), model, images, labels, seed, device, budget=pixels)
            name = f"sparse-pgd{', projected' if projected else ''}, for {pixels} pixels"
            yield f"{name}: accuracy {np.isinf(ours.distances).mean():.1%}, by the authors' program {left:.1%}"


def by_adv_lib(model: nn.Module, images: torch.Tensor, labels: torch.Tensor, steps: int) -> AttackResult:
    """The authors' attack as adv-lib has it; it counts features."""
    sigma_zero = importlib.import_module("adv_lib.attacks.sigma_zero").sigma_zero
    began, counting = time.perf_counter(), CountingNetwork(model).eval()
    found = sigma_zero(counting, images, labels, num_steps=steps)
    with torch.no_grad():
        fooled = (model(found).argmax(dim=1) != labels).cpu().numpy()
    distances = (found != images).flatten(1).sum(dim=1).double().cpu().numpy()
    distances = np.where(fooled, distances, np.inf)
    return AttackResult(distances, counting.queries, time.perf_counter() - began)


def by(
    attack: Attack,
    model: nn.Module,
    images: torch.Tensor,
    labels: torch.Tensor,
    seed: int,
    device: torch.device,
    budget: int | None = None,
) -> AttackResult:
    """All images at once."""
    began = time.perf_counter()
    found = attack(PlainNetwork(model, device), images, labels, seed=seed, budget=budget)
    distances = torch.where(found.distances == NOT_FOUND, torch.inf, found.distances.double()).numpy()
    return AttackResult(distances.astype(np.float64), int(found.queries.sum()), time.perf_counter() - began)


if __name__ == "__main__":
    main()
