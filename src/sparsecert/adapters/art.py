"""For the Adversarial Robustness Toolbox. Nicolae and others, "Adversarial Robustness Toolbox v1.0.0" (2018)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from sparsecert.adapters.libraries import import_art_classification
from sparsecert.adapters.scores import Scores
from sparsecert.errors import InputError
from sparsecert.smoothed import Smoothed

if TYPE_CHECKING:
    from art.estimators.classification import PyTorchClassifier


def art_classifier(scores: Scores, shape: Sequence[int] | None = None) -> PyTorchClassifier:
    """An ART classifier for images with values from 0 to 1.

    `shape` is that of one image. Loss gradients are those of the cross-entropy of the scores.
    """
    classification = import_art_classification()
    smoothed, shape = scores.smoothed, _shape(scores.smoothed, shape)
    classes = smoothed.voter(torch.zeros(1, *shape)).classes
    return classification.PyTorchClassifier(
        scores,
        loss=torch.nn.CrossEntropyLoss(),
        input_shape=shape,
        nb_classes=classes + scores.abstains,
        clip_values=(0.0, 1.0),
        device_type="gpu" if smoothed.device.type == "cuda" else "cpu",
    )


def _shape(smoothed: Smoothed, shape: Sequence[int] | None) -> tuple[int, ...]:
    """The given shape, else the one in the model file."""
    found = smoothed.metadata.get("shape") if shape is None else shape
    if found is None:
        raise InputError("shape must be that of one image, for example (1, 28, 28): this classifier's file names none")
    return tuple(found)
