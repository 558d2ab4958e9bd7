"""Examples of every scheme and encoding that is registered; every contract runs over them."""

from __future__ import annotations

from sparsecert.encodings import Encoding, MeanFill, NullChannels
from sparsecert.registry import METHODS
from sparsecert.schemes import Scheme, Uniform

SCHEMES: list[Scheme] = [
    Uniform(units=1, keep=1),
    Uniform(units=5, keep=2),
    Uniform(units=8, keep=7),
    Uniform(units=64, keep=12),
    Uniform(units=784, keep=45),
    Uniform(units=300, keep=299),
    Uniform(units=9, keep=9),
]
SMALL_SCHEMES = [Uniform(units, keep) for units in range(1, 13) for keep in range(1, units + 1)]
ENCODINGS: list[Encoding] = [
    NullChannels(),
    NullChannels(mean=[0.3], std=[0.2]),
    MeanFill(0.25),
    MeanFill(0.25, centred=True),
]
METHOD_NAMES = list(METHODS)
