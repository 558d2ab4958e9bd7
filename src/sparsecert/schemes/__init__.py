"""Schemes: which units a mask retains, and how often it retains a perturbed one; each file registers its own."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sparsecert import registry
from sparsecert.registry import SCHEMES

if TYPE_CHECKING:
    from sparsecert.schemes.all_subsets import AllSubsets
    from sparsecert.schemes.blocks import Bands, Blocks
    from sparsecert.schemes.fixed_masks import FixedMasks, ImageMasks
    from sparsecert.schemes.grid import Grid
    from sparsecert.schemes.lattice import Lattice
    from sparsecert.schemes.partition import Partition
    from sparsecert.schemes.random_values import RandomValues
    from sparsecert.schemes.scheme import (
        ATTACK,
        AUGMENTATION,
        DELTA_BITS,
        ENUMERATION,
        ESTIMATION,
        MAX_DRAWS,
        PREDICTION,
        SELECTION,
        TRAINING,
        RoundedUp,
        Scheme,
    )
    from sparsecert.schemes.scheme_spec import SchemeSpec
    from sparsecert.schemes.share import Share
    from sparsecert.schemes.spread import Spread
    from sparsecert.schemes.uniform import Uniform

__all__ = [
    "ATTACK",
    "AUGMENTATION",
    "DELTA_BITS",
    "ENUMERATION",
    "ESTIMATION",
    "MAX_DRAWS",
    "PREDICTION",
    "SCHEMES",
    "SELECTION",
    "TRAINING",
    "AllSubsets",
    "Bands",
    "Blocks",
    "FixedMasks",
    "Grid",
    "ImageMasks",
    "Lattice",
    "Partition",
    "RandomValues",
    "RoundedUp",
    "Scheme",
    "SchemeSpec",
    "Share",
    "Spread",
    "Uniform",
    "from_config",
]

_MODULES = (
    "scheme",
    "uniform",
    "fixed_masks",
    "all_subsets",
    "blocks",
    "grid",
    "lattice",
    "partition",
    "random_values",
    "scheme_spec",
    "share",
    "spread",
)


def __getattr__(name: str) -> Any:
    """Imports a module when something in it is first asked for."""
    if name in __all__:
        for module in _MODULES:
            found = getattr(import_module(f"sparsecert.schemes.{module}"), name, None)
            if found is not None:
                return found
    raise AttributeError(f"module 'sparsecert.schemes' has no attribute {name!r}")


def from_config(config: dict[str, Any]) -> Scheme:
    """The scheme whose `config()` this is."""
    return registry.from_config(SCHEMES, config)
