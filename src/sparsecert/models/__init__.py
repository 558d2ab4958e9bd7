"""Models, built by name: the paper's base classifiers, networks for fixed sets of masks, plain networks."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import torch
from torch import nn

from sparsecert.errors import InputError, describe, describe_failure
from sparsecert.models.average import averaged
from sparsecert.models.own import import_factory, is_own
from sparsecert.models.restoring import Restorer, restoring
from sparsecert.registry import MODELS
from sparsecert.schemes import Scheme

__all__ = ["MODELS", "Builder", "architecture_of", "build", "build_named", "is_own", "rebuild"]

# From input channels (those that the encoding shows), classes and, if it has a parameter `scheme`, the scheme.
Builder = Callable[..., nn.Module]

ARCHITECTURE = "_sparsecert_architecture"  # a name that no user's module has


def build(
    name: str, channels: int, classes: int, seed: int = 0, scheme: Scheme | None = None, restored: bool = False
) -> nn.Module:
    """A freshly initialised model, determined by the seed; its architecture is saved in model files.

    `restored`: the network is of whole images, behind a restorer (`models.restoring`).
    """
    return _initialised(MODELS[name], name, channels, classes, seed, scheme, restored)


def build_named(
    name: str, channels: int, classes: int, seed: int = 0, scheme: Scheme | None = None, restored: bool = False
) -> nn.Module:
    """`build`, also of a network of the user's, `module:factory`, whose module is imported.

    The name must come from the user: a model file must not make us import code.
    """
    if not is_own(name):
        return build(name, channels, classes, seed, scheme, restored)
    factory = import_factory(name)
    try:
        model = _initialised(factory, name, channels, classes, seed, scheme, restored)
    except Exception as error:
        called = f"{name}, called for {channels} channels and {classes} classes"
        raise InputError(f"{called}, failed: {describe_failure(error)}") from error
    if not isinstance(model, nn.Module):
        raise InputError(f"{name} must return a torch.nn.Module, got {describe(model)}")
    return model


def _initialised(
    builder: Builder, name: str, channels: int, classes: int, seed: int, scheme: Scheme | None, restored: bool
) -> nn.Module:
    given = {"scheme": scheme} if "scheme" in signature(builder).parameters else {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: nn.Module = builder(channels // 2 if restored else channels, classes, **given)
        if restored and isinstance(model, nn.Module):
            model = restoring(Restorer(channels // 2), model)
    if isinstance(model, nn.Module):
        wrapped = {"restored": True} if restored else {}
        setattr(model, ARCHITECTURE, {"name": name, "channels": channels, "classes": classes, **wrapped})
    return model


def architecture_of(model: nn.Module) -> dict[str, Any] | None:
    """What `rebuild` needs for such a model: the arguments of `build`, or members; None if it was not built here."""
    return getattr(model, ARCHITECTURE, None)


def rebuild(architecture: dict[str, Any], scheme: Scheme) -> nn.Module:
    """A model of that architecture, freshly initialised; nothing of the user's is imported."""
    if "members" not in architecture:
        return build(**architecture, scheme=scheme)
    return averaged([rebuild(member, scheme) for member in architecture["members"]], architecture["mirrored"])
