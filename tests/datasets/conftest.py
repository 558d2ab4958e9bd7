"""Data for these tests: an image folder made on the spot."""

from __future__ import annotations

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
