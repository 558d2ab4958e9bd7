"""For Foolbox. Rauber, Brendel & Bethge, "Foolbox: A Python toolbox to benchmark the robustness of machine learning
models" (2017).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparsecert.adapters.libraries import import_foolbox
from sparsecert.adapters.scores import Scores

if TYPE_CHECKING:
    from foolbox import PyTorchModel


def foolbox_model(scores: Scores) -> PyTorchModel:
    """A Foolbox model with bounds (0, 1), for attacks with or without gradients."""
    return import_foolbox().PyTorchModel(scores, bounds=(0, 1), device=scores.smoothed.device)
