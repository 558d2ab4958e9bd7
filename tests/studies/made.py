"""Small stand-ins for CIFAR-10 and for photographs, a network that learns them at once, and recipes for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from torch import nn

from sparsecert import datasets
from sparsecert.datasets import ArrayImages, Dataset, folder
from sparsecert.datasets.cifar10 import CLASSES, MEAN, STD
from sparsecert.registry import MODELS
from sparsecert.training import recipes
from tests.datasets.made import write_image

SIDE = 16  # 256 pixels: room for every k of the CIFAR-10 tables
PHOTO_SIDE = 48  # 2,304 pixels: room for k = 2,000
TRAINED, TESTED = 40, 30
PHOTO_CLASSES = 3


def tiny(channels: int, classes: int) -> nn.Module:
    """Sees colours."""
    pooled = nn.Sequential(nn.Conv2d(channels, 16, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(pooled, nn.BatchNorm1d(16, momentum=0.5), nn.Linear(16, classes))


def tinier(channels: int, classes: int) -> nn.Module:
    """Another architecture."""
    return nn.Sequential(
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.BatchNorm1d(channels, momentum=0.5), nn.Linear(channels, classes)
    )


def coloured(labels: NDArray[np.int64], side: int, seed: int) -> NDArray[np.uint8]:
    """Noise around a colour that is the class's own."""
    colours = np.random.default_rng(1).integers(0, 256, (10, 3))
    noise = np.random.default_rng(seed).integers(-40, 41, (len(labels), 3, side, side))
    return np.clip(colours[labels][:, :, None, None] + noise, 0, 255).astype(np.uint8)


def cifar10(split: str) -> Dataset:
    """Ten colours."""
    count = TRAINED if split == "train" else TESTED
    labels = np.arange(count, dtype=np.int64) % 10
    return Dataset("cifar10", split, ArrayImages(coloured(labels, SIDE, count)), labels, CLASSES, MEAN, STD)


def write_photographs(root: Path) -> None:
    """Six images of each of three colours for training, four for testing."""
    for split, count in (("train", 6), ("val", 4)):
        labels = np.repeat(np.arange(PHOTO_CLASSES, dtype=np.int64), count)
        for number, pixels in enumerate(coloured(labels, PHOTO_SIDE, count)):
            write_image(root / split / f"colour-{labels[number]}" / f"{number}.png", pixels.transpose(1, 2, 0))


def use_small_data(monkeypatch: pytest.MonkeyPatch, photographs: Path) -> None:
    """Puts the stand-ins in the place of the data sets, and small recipes in that of the true ones."""
    load = datasets.load

    def small(name: str, split: str = "test", data_dir: Any = None, size: object = None) -> Dataset:
        if str(data_dir).endswith("nowhere"):
            return load(name, split, data_dir)
        if name == "cifar10":
            return cifar10(split)
        root = Path(name) if Path(name).is_dir() else photographs
        return folder.load(root, split, size=PHOTO_SIDE, name=name)

    monkeypatch.setattr(datasets, "load", small)
    for name, builder in {"tiny": tiny, "resnet18-cifar": tiny, "resnet50-cifar": tinier}.items():
        monkeypatch.setitem(MODELS._things, name, builder)
    short: dict[str, Any] = {"epochs": 2, "batch": 8, "rates": ((1, 0.3),)}
    cifar, imagenet = recipes.RECIPES["paper-cifar10"], recipes.RECIPES["paper-imagenet"]
    for recipe in (
        replace(cifar, **short),
        replace(cifar, name="modern-cifar10", masks="sample", **short),
        replace(imagenet, model="tiny", **short),
        replace(imagenet, model="tiny", name="modern-imagenette", masks="sample", **short),
    ):
        monkeypatch.setitem(recipes.RECIPES._things, recipe.name, recipe)
