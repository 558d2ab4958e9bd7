"""The accuracy of a plain network, clean and under PGD."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from sparsecert.counts import Int64
from sparsecert.datasets import Dataset
from sparsecert.plain.projected_gradient import Scores, projected_gradient, random_starts
from sparsecert.plain.recipes import PlainRecipe
from sparsecert.votes.eval_mode import in_eval_mode

ROWS = 1000
ATTACKED = 1000


def evaluate(model: nn.Module, data: Dataset, recipe: PlainRecipe, device: torch.device, seed: int) -> dict[str, Any]:
    """The accuracy on `data`; of an adversarially trained network also under the PGD it was trained with, on 1,000
    evenly spaced images.
    """
    found: dict[str, Any] = {"split": data.split, "images": len(data), "accuracy": accuracy(model, data, device)}
    if recipe.adversarial:
        chosen = data.spaced_indices(ATTACKED)
        under_attack = accuracy(model, data, device, chosen, recipe, seed)
        found |= {"attacked": len(chosen), "accuracy_under_attack": under_attack}
    return found


def accuracy(
    model: Scores,
    data: Dataset,
    device: torch.device,
    chosen: Int64 | None = None,
    attack: PlainRecipe | None = None,
    seed: int = 0,
) -> float:
    """The accuracy on the chosen images (default: all), under the recipe's PGD if given."""
    chosen = np.arange(len(data)) if chosen is None else chosen
    right = 0
    with in_eval_mode(model):
        for first in range(0, len(chosen), ROWS):
            numbers = chosen[first : first + ROWS]
            images = torch.from_numpy(data.images.batch(numbers)).to(device).float() / 255
            labels = torch.from_numpy(data.labels[numbers]).to(device)
            if attack is not None:
                examples = torch.from_numpy(numbers).to(device)
                starts = random_starts(seed, examples, torch.zeros_like(examples[:1]), data.images.shape)
                images = projected_gradient(
                    model, images, labels, starts, attack.eps, attack.ascent_step, attack.ascent_steps
                )
            with torch.no_grad():
                right += int((model(images).argmax(dim=1) == labels).sum())
    return right / len(chosen)
