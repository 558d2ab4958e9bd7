"""Models: the paper's base classifiers, built by name; each takes its input channels from the encoding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from sparsecert.registry import MODELS

__all__ = ["MODELS", "Builder", "architecture_of", "build"]

Builder = Callable[[int, int], nn.Module]  # from the channels that the encoding shows, and the classes

ARCHITECTURE = "_sparsecert_architecture"  # a name that no module of a user's has


def build(name: str, channels: int, classes: int, seed: int = 0) -> nn.Module:
    """A freshly initialised model, the same for the same seed; its architecture travels with it into model files."""
    builder = MODELS[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = builder(channels, classes)
    setattr(model, ARCHITECTURE, {"name": name, "channels": channels, "classes": classes})
    return model


def architecture_of(model: nn.Module) -> dict[str, Any] | None:
    """What `build` needs to make this model again; None for a module that did not come from it."""
    return getattr(model, ARCHITECTURE, None)
