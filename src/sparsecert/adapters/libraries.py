"""Optional attack libraries, imported on first use."""

from __future__ import annotations

import warnings
from typing import Any

from sparsecert.errors import InputError


def import_foolbox() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # its own use of SciPy
            import foolbox
    except ImportError as error:
        raise InputError("Foolbox is not installed; pip install 'sparsecert[foolbox]'") from error
    return foolbox


def import_art_classification() -> Any:
    """The classifiers of the Adversarial Robustness Toolbox (ART)."""
    try:
        from art.estimators import classification
    except ImportError as error:
        missing = f"the Adversarial Robustness Toolbox is not installed, or incomplete ({error})"
        raise InputError(f"{missing}; pip install 'sparsecert[art]'") from error
    return classification
