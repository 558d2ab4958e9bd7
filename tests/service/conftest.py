"""A service that tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sparsecert.service import Service
from tests.service.made import small


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    made = small()
    yield made
    made.close()
