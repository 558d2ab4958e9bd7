"""`sparsecert demo`: the shipped models on the shipped digits."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from sparsecert import records
from tests.commands import sparsecert

pytestmark = pytest.mark.check


def test_the_demo_needs_neither_data_nor_training(tmp_path: Path) -> None:
    """Fixed masks first, then random ones by sequential sampling, or by the numbers of samples asked for."""
    sample, common = tmp_path / "mnist-sample", ("--limit", 5, "--out", tmp_path, "--device", "cpu")
    done = sparsecert("demo", *common)
    assert done.returncode == 0, done.stderr
    exact, sampled = done.stdout.split("MNIST, k = 45")
    assert {"exact (no alpha)", "5 inputs"} <= {*exact.replace("\n", " ").split(", ")}
    assert "96.72% (0.45%)" in sampled
    assert "sparsecert demo --n0 1000 --n 10000" in sampled
    assert len(records.read(sample / "lattice-28x1" / "certify.jsonl").lines) == 5
    run = records.read(sample / "k45" / "certify-sequential.jsonl")
    assert run.header.run["sampling"]["n0"] == 1_000
    before = (sample / "k45" / "certify-sequential.jsonl").read_bytes()
    fixed = sparsecert("demo", *common, "--n0", 50, "--n", 400)
    assert "median certified robustness by Corollary 1" in fixed.stdout
    assert len(records.read(sample / "k45" / "certify.jsonl").lines) == 5
    assert (sample / "k45" / "certify-sequential.jsonl").read_bytes() == before
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert names == {"headline.png", "headline.svg", "digits.png", "digits.svg"}


def test_compressed_records_are_used_if_they_are_of_the_same_settings(tmp_path: Path) -> None:
    common = "--limit", 2, "--n0", 20, "--n", 50, "--out", tmp_path, "--device", "cpu"
    done = sparsecert("demo", *common)
    assert done.returncode == 0, done.stderr
    for path in tmp_path.rglob("*.jsonl"):
        path.with_name(f"{path.name}.xz").write_bytes(lzma.compress(path.read_bytes()))
        path.unlink()
    assert sparsecert("demo", *common).stdout == done.stdout
    assert not [*tmp_path.rglob("*.jsonl")]
    other = sparsecert("demo", *common, "--seed", 1)
    assert other.returncode == 2
    assert "was made with seed 0, not 1; choose another --out folder" in other.stderr
