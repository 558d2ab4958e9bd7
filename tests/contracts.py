"""Examples of every scheme and encoding that is registered; every contract runs over them."""

from __future__ import annotations

from typing import Any

from sparsecert import datasets
from sparsecert.encodings import Encoding, Grouped, Indicator, MeanFill, NotANumber, NullChannels
from sparsecert.registry import CERTIFICATES, RECIPES
from sparsecert.registry import ENCODINGS as ENCODING_KINDS
from sparsecert.registry import SCHEMES as SCHEME_KINDS
from sparsecert.schemes import Scheme, Uniform


def _example(kind: type[Scheme]) -> Scheme:
    """For images of 4 x 6 pixels; a count is 2, a probability a half."""
    settings: dict[str, Any] = {"keep": 2} if "keep" in [option.setting for option in kind.options] else {}
    for option in kind.options:
        if option.required:
            settings[option.setting] = "0.5" if option.type is str else 2
    return kind.for_image((1, 4, 6), **settings)


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
ALL_SCHEMES = [*SCHEMES, *map(_example, SCHEME_KINDS.values())]  # of every kind
ENCODINGS: list[Encoding] = [  # of every kind that shows NULL
    NullChannels(mean=[0.3], std=[0.2]),
    MeanFill(0.25, centred=True),
    *(
        encoding
        for kind in ENCODING_KINDS.values()
        if kind not in (Grouped, Indicator, NotANumber) and not kind.takes_integers  # which have tests of their own
        for encoding in [kind.for_training(datasets.load("digits", "test"), RECIPES["digits"])]
        if encoding.values is None
    ),
]
METHOD_NAMES = [name for name, method in CERTIFICATES.items() if not method.by_pairs]  # of first choices alone
ANYTIME_NAMES = [name for name in METHOD_NAMES if CERTIFICATES[name].compared is not None]  # and sequential sampling
