"""Data for these tests: MNIST in small."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.datasets.made import write_small_mnist


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder whose MNIST is the shipped sample, for training and for testing."""
    folder = tmp_path_factory.mktemp("data")
    write_small_mnist(folder)
    return folder
