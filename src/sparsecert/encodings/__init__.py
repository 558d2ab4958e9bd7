"""Encodings: where a mask meets a tensor, and NULL becomes visible to the model."""

from __future__ import annotations

from typing import Any

from sparsecert.encodings.encoding import Encoding
from sparsecert.encodings.grouped import PROTECTED, Grouped, blocks_of
from sparsecert.encodings.mean_fill import MeanFill
from sparsecert.encodings.null_channels import NullChannels
from sparsecert.encodings.replaced_values import ReplacedValues
from sparsecert.errors import InputError

__all__ = [
    "PROTECTED",
    "Encoding",
    "Grouped",
    "MeanFill",
    "NullChannels",
    "ReplacedValues",
    "blocks_of",
    "from_config",
]

KINDS: dict[str, type[Encoding]] = {
    "null-channels": NullChannels,
    "mean-fill": MeanFill,
    "replaced-values": ReplacedValues,
    "grouped": Grouped,
}


def from_config(config: dict[str, Any]) -> Encoding:
    """The encoding whose `config()` this is."""
    if not isinstance(config, dict):
        raise InputError(f"encoding {config!r} cannot be understood")
    arguments = dict(config)
    kind = arguments.pop("kind", None)
    if kind not in KINDS:
        raise InputError(
            f"encoding kind must be one of {', '.join(KINDS)}, got {kind!r}; a newer sparsecert may know it"
        )
    if kind == "grouped" and "encoding" in arguments:
        arguments["encoding"] = from_config(arguments["encoding"])
    try:
        return KINDS[kind](**arguments)
    except TypeError as error:
        raise InputError(f"encoding {config} cannot be understood: {error}") from error
