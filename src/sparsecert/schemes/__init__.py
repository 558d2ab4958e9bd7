"""Schemes: which units a mask retains, and how often it meets altered ones."""

from __future__ import annotations

from typing import Any

from sparsecert.errors import InputError
from sparsecert.schemes.all_subsets import AllSubsets
from sparsecert.schemes.blocks import Bands, Blocks
from sparsecert.schemes.fixed import FixedMasks
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
from sparsecert.schemes.scheme_spec import Choice
from sparsecert.schemes.uniform import Uniform

__all__ = [
    "ATTACK",
    "AUGMENTATION",
    "DELTA_BITS",
    "ENUMERATION",
    "ESTIMATION",
    "MAX_DRAWS",
    "PREDICTION",
    "SELECTION",
    "TRAINING",
    "AllSubsets",
    "Bands",
    "Blocks",
    "Choice",
    "FixedMasks",
    "Lattice",
    "Partition",
    "RandomValues",
    "RoundedUp",
    "Scheme",
    "Uniform",
    "from_config",
]

KINDS: dict[str, type[Scheme]] = {
    "uniform": Uniform,
    "partition": Partition,
    "lattice": Lattice,
    "blocks": Blocks,
    "bands": Bands,
    "all-subsets": AllSubsets,
    "random-values": RandomValues,
}


def from_config(config: dict[str, Any]) -> Scheme:
    """The scheme whose `config()` this is."""
    if not isinstance(config, dict):
        raise InputError(f"scheme {config!r} cannot be understood")
    arguments = dict(config)
    kind = arguments.pop("kind", None)
    if kind not in KINDS:
        raise InputError(f"scheme kind must be one of {', '.join(KINDS)}, got {kind!r}; a newer sparsecert may know it")
    try:
        return KINDS[kind](**arguments)
    except TypeError as error:
        raise InputError(f"scheme {config} cannot be understood: {error}") from error
