"""Blocks of pixels as units, from training to certificates."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparsecert import records
from sparsecert.encodings import Grouped
from sparsecert.smoothed import Smoothed
from tests.commands import exit_code


@pytest.mark.parametrize(
    ("scheme", "units"),
    [(["--keep", 4, "--unit", "2x2"], 16), (["--scheme", "lattice", "--parts", 6, "--unit", "3x2"], 12)],
)
def test_a_unit_may_be_a_block_of_pixels(scheme: list[object], units: int, tmp_path: Path) -> None:
    """Of the 8 x 8 digits: 4 x 4 blocks, or 3 x 4 of which the lowest are cut off; certified, and certified again."""
    common = "--data", "digits", "--device", "cpu"
    assert exit_code("train", *common, *scheme, "--epochs", 2, "--out", tmp_path) == 0
    smoothed = Smoothed.load(tmp_path)
    assert isinstance(smoothed.encoding, Grouped)
    counted = smoothed.encoding.units((1, 8, 8))
    assert smoothed.scheme.units == counted.count == units
    samples = ["--n0", 50, "--n", 200] if "--keep" in scheme else []
    assert exit_code("certify", tmp_path, *common, "--limit", 10, *samples) == 0
    assert exit_code("certify", tmp_path, *common, "--limit", 10, *samples) == 0
    found = records.read(tmp_path / "certify.jsonl")
    assert len(found.lines) == 10
    assert found.header.run["encoding"]["kind"] == "grouped"
    assert all(line.radius is None or line.radius <= units for line in found.lines)
    assert exit_code("report", tmp_path / "certify.jsonl") == 0


def test_a_unit_is_rows_and_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in ("2", "0x2", "2x", "axb"):
        assert exit_code("train", "--data", "digits", "--unit", wrong, "--out", tmp_path / "run") == 2
        assert "--unit must be RxC pixels" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
