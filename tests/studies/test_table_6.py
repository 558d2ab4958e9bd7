"""Table 6 on a folder of photographs, in small: a random subset, and numbers that nobody can take for ImageNet's."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sparsecert import datasets, records
from sparsecert.errors import InputError
from sparsecert.reports import summarise
from studies.levine_feizi_2020 import Study, defaults
from studies.levine_feizi_2020.command import command
from studies.levine_feizi_2020.table_6 import table_6

from .made import PHOTO_CLASSES, use_small_data, write_photographs

pytestmark = pytest.mark.check

KEEPS = [500, 1000, 2000]
SMALL = ["--n0", 5, "--n", 30]
TRAINED, TESTED = 6 * PHOTO_CLASSES, 4 * PHOTO_CLASSES


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("data") / "colours"
    write_photographs(folder)
    with pytest.MonkeyPatch.context() as patched:
        use_small_data(patched, folder)
        yield folder


def _run(*arguments: object) -> Any:
    done = CliRunner(env={"COLUMNS": "160"}).invoke(command, [*map(str, arguments), "--device", "cpu"])
    assert done.exit_code == 0, done.exception
    return done.stdout


@pytest.fixture(scope="module")
def made(photographs: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    out = tmp_path_factory.mktemp("study")
    return out, _run("table-6", "--limit", 5, "--seed", 3, *SMALL, "--out", out)


def test_every_row_says_what_it_is_of(made: tuple[Path, str]) -> None:
    out, text = made
    table = json.loads(_run("table-6", "--limit", 5, "--seed", 3, *SMALL, "--out", out, "--format", "json"))
    rows = table["rows"]
    assert [(row["data"], row["classes"], row["k"]) for row in rows] == [
        *(("Imagenette, measured", str(PHOTO_CLASSES), str(keep)) for keep in KEEPS),
        *(("ImageNet, published", "1,000", str(keep)) for keep in KEEPS),
    ]
    assert [row["accuracy"] for row in rows[3:]] == ["52.75% (1.75%)", "61.00% (0.00%)", "62.50% (1.75%)"]
    assert [row["median"] for row in rows[3:]] == ["0", "16", "11"]
    assert [row["median among certified"] for row in rows[3:]] == ["63", "33", "16"]
    assert not any("published" in header or "difference" in header for header in rows[0])
    for row, keep in zip(rows[:3], KEEPS, strict=True):
        found = records.read(out / "imagenette" / f"k{keep}" / "certify-5.jsonl")
        one, two = (summarise(found, bound=bound) for bound in ("one-sided", "two-sided"))
        assert row["accuracy"] == f"{100 * one.accuracy:.2f}% ({100 * one.abstained:.2f}%)"
        medians = one.median, one.median_among_certified, two.median, two.median_among_certified
        assert list(row.values())[4:] == ["N/A" if median is None else str(median) for median in medians]
    facts = f"Imagenette ({PHOTO_CLASSES} classes, {TRAINED} training images)"
    assert table["about"].startswith(facts)
    assert f"the measured rows are of {facts}, the published ones of ImageNet (1,000 classes)" in table["notes"][0]
    words = " ".join(text.split())
    for part in ("chosen at random", "drawn at random", "recipe modern-imagenette (2 epochs)", "76.15% on ImageNet"):
        assert part in words


def test_the_subset_is_drawn_by_the_seed(made: tuple[Path, str]) -> None:
    test = datasets.load("imagenette", "test")
    for keep in KEEPS:
        found = records.read(made[0] / "imagenette" / f"k{keep}" / "certify-5.jsonl")
        assert [line.example for line in found.lines] == test.random_indices(5, seed=3).tolist()
        assert found.header.run["chosen"] == {"kind": "random", "seed": 3}


def test_rows_of_different_numbers_of_images_say_so(
    photographs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the usual subset were 5 images: a row that has all of them shows those."""
    monkeypatch.setitem(defaults.DEFAULTS, "imagenette", replace(defaults.DEFAULTS["imagenette"], limit=5))
    table_6(Study(tmp_path, data="imagenette", n0=5, n=20, limit=TESTED), [500])
    table = table_6(Study(tmp_path, data="imagenette", n0=5, n=20), [500, 1000])
    place = table.headers.index("images")
    assert [row[place] for row in table.rows] == [str(TESTED), "5", "400", "400"]
    assert [row[place + 1] for row in table.rows] == ["500", "1000", "500", "1000"]
    assert {len(row) for row in table.rows} == {len(table.headers)}


def test_it_is_printed_again_without_model_and_data(made: tuple[Path, str], tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    shutil.copytree(made[0], kept, ignore=shutil.ignore_patterns("*.safetensors", ".lock"))
    again = ["--limit", 5, "--seed", 3, *SMALL, "--out", kept, "--data-dir", tmp_path / "nowhere"]
    assert _run("table-6", *again) == made[1]


def test_any_folder_goes_under_its_own_name(photographs: Path, tmp_path: Path) -> None:
    text = _run("table-6", "--data", photographs, "--keeps", 500, *SMALL, "--out", tmp_path)
    assert (tmp_path / "colours" / "k500" / "certify.jsonl").is_file()
    assert any(line.lstrip().startswith("colours, measured") for line in text.splitlines())
    assert "Imagenette" not in text


def test_another_folder_of_the_same_name_is_refused(photographs: Path, tmp_path: Path) -> None:
    here, there = tmp_path / "here" / "colours", tmp_path / "there" / "colours"
    for folder in (here, there):
        shutil.copytree(photographs, folder)
    next((there / "val").rglob("*.png")).unlink()
    settings: dict[str, Any] = {"n0": 5, "n": 20, "epochs": 1}
    study = Study(tmp_path / "out", data=str(here), **settings)
    table = table_6(study, [500])
    with pytest.raises(InputError, match=r"was made with data fingerprint .*; name another --out folder"):
        table_6(Study(tmp_path / "out", data=str(there), **settings), [500])
    shutil.rmtree(here)
    assert table_6(Study(tmp_path / "out", data=str(here), **settings), [500]) == table


def test_only_with_all_its_classes_is_imagenet_called_so(
    photographs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = Study(tmp_path, data="imagenet", n0=5, n=20, limit=3)
    for classes, name, apart in ((1_000, "imagenet", True), (PHOTO_CLASSES, "ImageNet", False)):
        monkeypatch.setattr("studies.levine_feizi_2020.table_6.IMAGENET_CLASSES", classes)
        table = table_6(study, [500])
        assert table.rows[0][:3] == (f"{name}, measured", str(PHOTO_CLASSES), "500")
        assert any("not to be compared" in note for note in table.notes) == apart
        assert any("recipe paper-imagenet" in note for note in table.notes)
