"""sparsecert: certified robustness to sparse attacks by randomized ablation, for any classifier.

    import sparsecert as sc
    g = sc.Smoothed(net, scheme=sc.Uniform(units=784, keep=45), encoding=sc.NullChannels())
    c = g.certify(images, n0=1_000, n=10_000, alpha=0.05, seed=0)

Names are imported when first used, so that what needs no torch starts without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sparsecert import threads

if TYPE_CHECKING:
    from sparsecert.encodings import PROTECTED, Grouped, MeanFill, NullChannels, ReplacedValues, blocks_of
    from sparsecert.errors import InputError
    from sparsecert.models.adapt import adapt
    from sparsecert.models.average import averaged
    from sparsecert.models.restoring import restoring
    from sparsecert.procedures import Exact, Fixed, Sequential
    from sparsecert.results import Certifications, Predictions
    from sparsecert.schemes import TRAINING, Bands, Blocks, Grid, Lattice, Partition, RandomValues, Spread, Uniform
    from sparsecert.smoothed import Smoothed
    from sparsecert.training.restorer import train_restorer

__version__ = "0.1.0"
__all__ = [
    "PROTECTED",
    "TRAINING",
    "Bands",
    "Blocks",
    "Certifications",
    "Exact",
    "Fixed",
    "Grid",
    "Grouped",
    "InputError",
    "Lattice",
    "MeanFill",
    "NullChannels",
    "Partition",
    "Predictions",
    "RandomValues",
    "ReplacedValues",
    "Sequential",
    "Smoothed",
    "Spread",
    "Uniform",
    "adapt",
    "averaged",
    "blocks_of",
    "restoring",
    "train_restorer",
]

_HOMES = {
    "PROTECTED": "encodings",
    "TRAINING": "schemes",
    "Bands": "schemes",
    "Blocks": "schemes",
    "Certifications": "results",
    "Exact": "procedures",
    "Fixed": "procedures",
    "Grouped": "encodings",
    "InputError": "errors",
    "Grid": "schemes",
    "Lattice": "schemes",
    "MeanFill": "encodings",
    "NullChannels": "encodings",
    "Partition": "schemes",
    "Predictions": "results",
    "RandomValues": "schemes",
    "ReplacedValues": "encodings",
    "Sequential": "procedures",
    "Smoothed": "smoothed",
    "Spread": "schemes",
    "Uniform": "schemes",
    "adapt": "models.adapt",
    "averaged": "models.average",
    "blocks_of": "encodings",
    "restoring": "models.restoring",
    "train_restorer": "training.restorer",
}

threads.prepare()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sparsecert' has no attribute {name!r}")
    return getattr(import_module(f"sparsecert.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
