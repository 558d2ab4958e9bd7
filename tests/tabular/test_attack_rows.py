"""Rows of a table under the attacks of images: units take values of the table, and certificates hold against them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the tables extra is not installed")
pytest.importorskip("pandas", reason="the tables extra is not installed")

import torch

from sparsecert.attacks.table_rows import TableRows
from sparsecert.inputs.rows import Rows
from sparsecert.procedures import Exact
from sparsecert.records import read, read_attack
from sparsecert.runs import adversarial_images
from sparsecert.smoothed import Smoothed
from tests.commands import exit_code
from tests.tabular.test_tables import _frame

FEW = ["--limit", 12, "--queries", 100, "--rounds", 2]


def _table() -> tuple[Any, Any]:
    """Rows with a missing value, and columns 0 and 2 as one unit."""
    noise = np.random.default_rng(0)
    rows = np.column_stack((noise.integers(0, 4, (40, 3)), noise.random(40))).astype(np.float64)
    rows[3, 1] = np.nan
    return rows, np.array([0, 1, 0, 2])


def test_rows_survive_and_any_bits_are_values_of_the_table() -> None:
    rows, units = _table()
    table = TableRows(rows, units)
    coded = table.encode(torch.from_numpy(rows))
    assert coded.shape == (40, table.bits, 3)
    np.testing.assert_array_equal(table.decode(coded).numpy(), rows)
    drawn = table.decode((torch.rand(500, table.bits, 3, generator=torch.Generator().manual_seed(0)) < 0.5).float())
    for columns in ([0, 2], [1], [3]):
        known = {row.tobytes() for row in (*rows[:, columns], np.full(len(columns), np.nan))}
        assert {row.tobytes() for row in drawn.numpy()[:, columns]} == known


def test_units_that_differ_are_counted_once_and_missing_values_are_alike() -> None:
    rows, units = _table()
    table, before = TableRows(rows, units), torch.from_numpy(rows[3:5].copy())
    after = before.clone()
    after[0, [0, 2]] += 1
    after[1, 3] = np.nan
    assert table.changed(after, before).tolist() == [[True, False, False], [False, False, True]]
    assert not table.changed(before, before).any()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of a table with a unit of two columns, attacked and certified on the same rows."""
    where = tmp_path_factory.mktemp("table")
    _frame().to_csv(where / "table.csv", index=False)
    trained = ["--target", "y", "--drop", "id", "--together", "f0,f1", "--keep", 2, "--copies", 2, "--out", where]
    assert exit_code("train", where / "table.csv", *trained) == 0
    assert exit_code("attack", where, "--data", where / "table.csv", *FEW) == 0
    assert exit_code("certify", where, "--data", where / "table.csv", "--limit", 12) == 0
    return where


def test_what_is_found_changes_the_vote_beyond_the_certified_radius(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    g = Smoothed.load(folder)
    rows = Rows.read(folder / "table.csv", g.metadata)
    found, sure = read_attack(folder / "attack-ensemble.jsonl"), {}
    for line in read(folder / "certify.jsonl").lines:
        sure[line.example] = line
    changed = adversarial_images(found, rows)
    originals = torch.from_numpy(rows.batch([line.example for line in found.lines]))
    answers = g.certify(changed, Exact()).labels.tolist()
    units = np.asarray(found.header.run["encoding"]["units"])
    assert sum(bool(line.distance) for line in found.lines) >= 6
    for line, row, original, answer in zip(found.lines, changed, originals, answers, strict=True):
        differs = ~np.isclose(row.numpy(), original.numpy(), rtol=0, atol=0, equal_nan=True)
        assert tuple(np.unique(units[differs])) == line.pixels
        if line.distance is not None:
            assert answer == line.answer != line.true
            assert line.distance == len(line.pixels)
        if line.distance:
            assert line.distance > sure[line.example].radius
    capsys.readouterr()
    assert exit_code("report", folder / "certify.jsonl", folder / "attack-ensemble.jsonl") == 0
    assert "accuracy under attacks on up to rho features" in capsys.readouterr().out


def test_every_single_unit_that_changes_the_vote_is_found(folder: Path) -> None:
    """By brute force: each unit set to each of its values in the table."""
    g = Smoothed.load(folder)
    rows = Rows.read(folder / "table.csv", g.metadata)
    found = read_attack(folder / "attack-ensemble.jsonl")
    table = TableRows(rows.values, np.asarray(found.header.run["encoding"]["units"]))
    for line in found.lines:
        tried = []
        for columns, values in zip(table.columns, table.values, strict=True):
            each = np.repeat(rows.batch([line.example]), len(values), axis=0)
            each[:, columns] = values
            tried.append(each)
        one = bool((g.certify(torch.from_numpy(np.concatenate(tried)), Exact()).labels != line.true).any())
        assert (line.distance is not None and line.distance <= 1) == one


def test_mistakes_are_one_clear_line(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    guarded = tmp_path / "guarded"
    trained = ["--target", "y", "--drop", "id", "--protected", "f0", "--keep", 2, "--copies", 1, "--out", guarded]
    assert exit_code("train", folder / "table.csv", *trained) == 0
    for arguments, message in (
        ([folder, "--data", folder / "table.csv", "--budget", 9], "between 1 and the 5 units of a row, got 9"),
        ([folder, "--data", "digits"], "the model was trained on a table; --data must be a table file, got digits"),
        (
            [folder, "--data", folder / "table.csv", "--attack", "sigma-zero"],
            "rows of a table have no gradients",
        ),
        ([guarded, "--data", folder / "table.csv"], "protected: its certificates do not cover changes there"),
        (["nearest-neighbour", "--data", folder / "table.csv"], "table.csv"),
    ):
        capsys.readouterr()
        assert exit_code("attack", *arguments, "--out", tmp_path / "a.jsonl") == 2
        assert message in capsys.readouterr().err
