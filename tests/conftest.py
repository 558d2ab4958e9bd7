"""What every test may rely on: quiet threads, and a small trained model on the built-in digits."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

if "PYTEST_XDIST_WORKER_COUNT" in os.environ:  # processes side by side share the CPUs, and so do those they start
    _threads = max(1, (os.cpu_count() or 1) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"]))
    os.environ.setdefault("OMP_NUM_THREADS", str(_threads))
    os.environ["COLUMNS"] = "120"  # as where there is no terminal; these processes see 80

import torch

from sparsecert import datasets
from sparsecert.datasets import ArrayImages
from sparsecert.training import train
from sparsecert.training.recipes import RECIPES
from tests.helpers import Digits


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a short training run on the digits: a model that is right on most of them.

    Its file names no bound, so that it is certified by the two-sided one.
    """
    out = tmp_path_factory.mktemp("trained")
    recipe = replace(RECIPES["digits"].shortened(12), keep=16)
    train(datasets.load("digits", "train"), recipe, out, own={})
    return out


@pytest.fixture(scope="session")
def few() -> datasets.Dataset:
    """The first 150 training digits."""
    data = datasets.load("digits", "train")
    assert isinstance(data.images, ArrayImages)
    return replace(data, images=ArrayImages(data.images.pixels[:150]), labels=data.labels[:150])


@pytest.fixture(scope="session")
def digits() -> Digits:
    """The first held-out digits as Float[20, 1, 8, 8] and their labels."""
    data = datasets.load("digits", "test")
    assert isinstance(data.images, ArrayImages)
    return torch.from_numpy(data.images.pixels[:20]).float() / 255, torch.from_numpy(data.labels[:20])
