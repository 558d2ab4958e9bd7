"""Models: the paper's base classifiers, built by name; the encoding decides their input channels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from sparsecert.errors import InputError
from sparsecert.models.digits_cnn import digits_cnn
from sparsecert.models.mnist_cnn import mnist_cnn
from sparsecert.models.resnet import resnet18_cifar, resnet50, resnet50_cifar

__all__ = ["BUILDERS", "architecture_of", "build"]

ARCHITECTURE = "_sparsecert_architecture"  # a name that no user's module has

BUILDERS: dict[str, Callable[[int, int], nn.Module]] = {
    "digits-cnn": digits_cnn,
    "mnist-cnn": mnist_cnn,
    "resnet18-cifar": resnet18_cifar,
    "resnet50-cifar": resnet50_cifar,
    "resnet50": resnet50,
}


def build(name: str, channels: int, classes: int, seed: int = 0) -> nn.Module:
    """A freshly initialised model, determined by the seed; its architecture is saved in model files."""
    if name not in BUILDERS:
        raise InputError(f"model must be one of {', '.join(BUILDERS)}, got {name!r}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = BUILDERS[name](channels, classes)
    setattr(model, ARCHITECTURE, {"name": name, "channels": channels, "classes": classes})
    return model


def architecture_of(model: nn.Module) -> dict[str, Any] | None:
    """The arguments of `build` for this model; None if it was not built here."""
    return getattr(model, ARCHITECTURE, None)
