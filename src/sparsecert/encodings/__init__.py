"""Encodings: apply a mask to a tensor and make NULL visible to the model; each file registers its own."""

from __future__ import annotations

from typing import Any

from sparsecert import registry
from sparsecert.encodings.encoding import Encoding
from sparsecert.encodings.grouped import PROTECTED, Grouped, blocks_of
from sparsecert.encodings.indicator import Indicator
from sparsecert.encodings.mean_fill import MeanFill
from sparsecert.encodings.not_a_number import NotANumber
from sparsecert.encodings.null_channels import NullChannels
from sparsecert.encodings.replaced_values import ReplacedValues
from sparsecert.encodings.words import DropWords, MaskToken, WordEncoding
from sparsecert.registry import ENCODINGS

__all__ = [
    "ENCODINGS",
    "PROTECTED",
    "DropWords",
    "Encoding",
    "Grouped",
    "Indicator",
    "MaskToken",
    "MeanFill",
    "NotANumber",
    "NullChannels",
    "ReplacedValues",
    "WordEncoding",
    "blocks_of",
    "from_config",
]


def from_config(config: dict[str, Any]) -> Encoding:
    """The encoding whose `config()` this is."""
    return registry.from_config(ENCODINGS, config)
