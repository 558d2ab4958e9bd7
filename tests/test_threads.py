"""Threads that wait sleep, and there are no more of them than a container feeds; what the user set is left alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sparsecert import threads


@pytest.fixture
def cgroups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment without settings, on four cores, with a container's limits in this folder."""
    for name in ("OMP_WAIT_POLICY", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "")  # so that it is put back as it was
        monkeypatch.delenv(name)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(threads, "CGROUPS", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("max 100000", None),
        ("200000 100000", "2"),
        ("150000 100000", "2"),
        ("5000 100000", "1"),
        ("400000 100000", None),
        ("800000 100000", None),
        ("", None),
        ("half 0", None),
        (None, None),
    ],
)
def test_a_containers_limit_is_respected(cgroups: Path, limit: str | None, expected: str | None) -> None:
    if limit is not None:
        (cgroups / "cpu.max").write_text(limit)
    threads.prepare()
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
    assert os.environ.get("OMP_NUM_THREADS") == expected


def test_what_the_user_set_is_left_alone(cgroups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cgroups / "cpu.max").write_text("100000 100000")
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    threads.prepare()
    assert (os.environ["OMP_WAIT_POLICY"], os.environ["OMP_NUM_THREADS"]) == ("ACTIVE", "3")


def test_the_package_prepares_them_before_torch_is_imported() -> None:
    """The variables are read when torch is imported; this process imported the package."""
    assert os.environ["OMP_WAIT_POLICY"]
