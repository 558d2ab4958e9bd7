"""What every test may rely on: quiet threads, a small model trained on the built-in digits, and real data."""

from __future__ import annotations

import os
from collections.abc import Callable
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


@pytest.fixture(scope="session")
def real_data() -> Callable[[str], Path]:
    """A function that gives the folder SPARSECERT_DATA if it holds what is asked for, and skips otherwise."""

    def find(inside: str) -> Path:
        folder = os.environ.get("SPARSECERT_DATA")
        if not folder:
            pytest.skip("SPARSECERT_DATA is not set: no real data")
        if not (Path(folder) / inside).exists():
            pytest.skip(f"SPARSECERT_DATA holds no {inside}")
        return Path(folder)

    return find
