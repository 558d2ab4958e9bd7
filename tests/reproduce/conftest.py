"""Data for these tests: MNIST in small."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sparsecert import datasets
from tests.datasets.made import write_mnist


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder whose MNIST is the shipped sample, for training and for testing."""
    folder = tmp_path_factory.mktemp("data")
    sample = datasets.load("mnist-sample")
    images, labels = sample.images.batch(range(100))[:, 0], sample.labels.astype(np.uint8)
    for prefix in ("train", "t10k"):
        write_mnist(folder / "mnist", prefix, images, labels)
    return folder
