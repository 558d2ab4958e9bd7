"""The libraries that are adapted to, imported when they are first asked for."""

from __future__ import annotations

import warnings
from typing import Any

from sparsecert.errors import InputError


def import_foolbox() -> Any:
    """Foolbox, which only `Smoothed.as_foolbox` needs."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # its own use of SciPy, nothing a caller could change
            import foolbox
    except ImportError as error:
        raise InputError("Foolbox is not installed; pip install 'sparsecert[foolbox]'") from error
    return foolbox


def import_art_classification() -> Any:
    """The classifiers of the Adversarial Robustness Toolbox (ART), which only `Smoothed.as_art` needs."""
    try:
        from art.estimators import classification
    except ImportError as error:
        missing = f"the Adversarial Robustness Toolbox is not installed, or lacks a part of it ({error})"
        raise InputError(f"{missing}; pip install 'sparsecert[art]'") from error
    return classification
