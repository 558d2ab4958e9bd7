"""Models: the paper's base classifiers and two plain networks to compare with, built by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from sparsecert.registry import MODELS

__all__ = ["MODELS", "Builder", "architecture_of", "build"]

Builder = Callable[[int, int], nn.Module]  # from input channels (those that the encoding shows) and classes

ARCHITECTURE = "_sparsecert_architecture"  # a name that no user's module has


def build(name: str, channels: int, classes: int, seed: int = 0) -> nn.Module:
    """A freshly initialised model, determined by the seed; its architecture is saved in model files."""
    builder = MODELS[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = builder(channels, classes)
    setattr(model, ARCHITECTURE, {"name": name, "channels": channels, "classes": classes})
    return model


def architecture_of(model: nn.Module) -> dict[str, Any] | None:
    """The arguments of `build` for this model; None if it was not built here."""
    return getattr(model, ARCHITECTURE, None)
