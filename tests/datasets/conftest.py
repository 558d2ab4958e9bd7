"""Data for these tests: real sets by the environment variable SPARSECERT_DATA, and an image folder made on the spot."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from .made import write_image


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """An image folder: two classes, three training and two test images of various sizes, as PNG."""
    generator = np.random.default_rng(0)
    sizes = {
        "train/cat/b.png": (40, 60),
        "train/cat/a.PNG": (60, 40),
        "train/dog/c.png": (224, 224),
        "val/cat/d.png": (30, 30),
        "val/dog/e.png": (300, 500),
    }
    for path, size in sizes.items():
        write_image(tmp_path / "photos" / path, generator.integers(0, 256, (*size, 3), dtype=np.uint8))
    return tmp_path / "photos"


@pytest.fixture(scope="session")
def real_data() -> Callable[[str], Path]:
    """A function that gives the real data folder if it holds the file or folder asked for, and skips otherwise."""

    def find(inside: str) -> Path:
        folder = os.environ.get("SPARSECERT_DATA")
        if not folder:
            pytest.skip("SPARSECERT_DATA is not set: no real data")
        if not (Path(folder) / inside).exists():
            pytest.skip(f"SPARSECERT_DATA holds no {inside}")
        return Path(folder)

    return find
