"""Studies of fixed sets of masks in small: what is missing is made, what is there is used."""

from __future__ import annotations

import lzma
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparsecert import datasets, records
from sparsecert.datasets import Dataset
from sparsecert.errors import InputError
from sparsecert.reports import summarise
from sparsecert.reports.comparison import format_median, format_percent
from sparsecert.schemes import SchemeSpec
from studies.levine_feizi_2020 import Study, fixed_masks
from studies.levine_feizi_2020 import exact as exacts
from studies.levine_feizi_2020 import patches as patched
from studies.levine_feizi_2020.exact import exact
from studies.levine_feizi_2020.patches import patches
from studies.levine_feizi_2020.published import MEDIANS, PATCHES, names, published_medians, published_patches
from studies.levine_feizi_2020.tables import measured_rows
from tests.commands import study
from tests.studies.made import TESTED, use_small_data

pytestmark = pytest.mark.check

NAMES = "lattice-8x1", "lattice-8x2"
CHOICES = [SchemeSpec.parse(name) for name in NAMES]
SMALL: dict[str, Any] = {"data": "cifar10", "limit": 12}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("study")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_small_data(monkeypatch, tmp_path)


def test_the_table_is_of_the_records_that_were_made(out: Path) -> None:
    made = exact(Study(out, **SMALL), CHOICES)
    (table,) = made.tables
    assert all(path.stat().st_size for path in made.figures)
    for name, masks, row in zip(NAMES, (8, 16), table.rows, strict=True):
        found = records.read(out / "cifar10" / name / "certify-12.jsonl")
        assert (found.header.run["rule"], found.header.run["masks"], len(found.lines)) == ("pairwise", masks, 12)
        pairwise, run_off, plurality = (summarise(found, rule=rule) for rule in ("pairwise", "run-off", "plurality"))
        shown = dict(zip(table.headers, row, strict=True))
        assert (shown["masks"], shown["forward passes"], shown["pixels retained"]) == (name, str(masks), "32")
        assert (shown["accuracy"], shown["median"]) == (
            format_percent(pairwise.accuracy),
            format_median(pairwise.median),
        )
        assert (shown["median, run-off"], shown["median, plurality"]) == (
            format_median(run_off.median),
            format_median(plurality.median),
        )
        assert shown["best published median"] == "13"
    notes = " ".join(table.notes)
    assert "exact (no alpha)" in notes
    assert f"12 of the {TESTED} test images" in notes
    assert "Hammoudeh & Lowd" in notes


def test_what_is_there_is_used_without_model_or_data(out: Path, tmp_path: Path) -> None:
    (table,) = exact(Study(out, **SMALL), CHOICES).tables
    for path in out.rglob("certify-12.jsonl"):
        target = tmp_path / path.relative_to(out).with_name(path.name + ".xz")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(lzma.compress(path.read_bytes()))
    (again,) = exact(Study(tmp_path, data_dir=tmp_path / "nowhere", **SMALL), CHOICES).tables
    assert (again.rows, again.notes) == (table.rows, table.notes)
    assert not list(tmp_path.rglob("*.safetensors"))


def test_records_that_were_begun_are_finished(out: Path) -> None:
    (table,) = exact(Study(out, **SMALL), CHOICES).tables
    path = out / "cifar10" / NAMES[0] / "certify-12.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:5]) + b'{"exam')
    (again,) = exact(Study(out, **SMALL), CHOICES).tables
    assert again.rows == table.rows
    assert len(records.read(path).lines) == 12


def test_records_of_other_settings_are_refused(out: Path, tmp_path: Path) -> None:
    exact(Study(out, **SMALL), CHOICES[:1])
    there = out / "cifar10" / NAMES[0] / "certify-12.jsonl"
    for name, message in (("lattice-4x1", "made with parts 8, not 4"), ("partition-8x1", "made with scheme lattice")):
        path = tmp_path / "cifar10" / name / there.name
        path.parent.mkdir(parents=True)
        path.write_bytes(there.read_bytes())
        with pytest.raises(InputError, match=message):
            exact(Study(tmp_path, **SMALL), [SchemeSpec.parse(name)])
    path = tmp_path / "cifar10" / NAMES[0] / there.name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(there.read_bytes().splitlines(keepends=True)[:5]))
    with pytest.raises(InputError, match="holds records but not their model"):
        exact(Study(tmp_path, **SMALL), CHOICES[:1])


def test_records_of_two_test_sets_do_not_stand_side_by_side(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exact(Study(out, **SMALL), CHOICES[:1])
    load = datasets.load

    def others(name: str, split: str, *_: Any) -> Dataset:
        data = load(name, split)
        return replace(data, labels=data.labels[::-1].copy()) if split == "test" else data

    monkeypatch.setattr(datasets, "load", others)
    with pytest.raises(InputError, match=r"certify-12\.jsonl is of other test images than the cifar10 that is here"):
        exact(Study(out, **SMALL), [*CHOICES[:1], SchemeSpec.parse("lattice-4x1")])


def test_random_masks_that_were_measured_are_in_the_figure(out: Path) -> None:
    """The whole run and, as marks before it, fewer and fewer of its votes."""
    sampled = Study(out, n0=20, n=100, **SMALL)
    exact(sampled, CHOICES[:1])
    assert exacts.sampled_best(sampled) == {}
    rows = measured_rows(sampled, exacts.published_over_k("cifar10"), [25])
    found = exacts.sampled_best(replace(sampled, epochs=3))  # of the fixed sets
    assert set(found) == {"two-sided", "one-sided"}
    two_sided, one_sided = exacts.sampled_series(found)
    assert [one.mean_samples for one in two_sided.summaries] == [120, 6 + 33, 2 + 10]
    assert (two_sided.summaries[0].bound, one_sided.summaries[0].bound) == ("two-sided", "one-sided")
    for series, row in ((two_sided, rows[0].two_sided), (one_sided, rows[0].one_sided)):
        assert series.summaries[0].certified_accuracy == row.certified_accuracy


def test_patches_by_the_command_line(out: Path) -> None:
    options = "--masks", "bands-3,blocks-4", "--limit", 6, "--out", out, "--format", "markdown"
    done = study("patches", "--data", "cifar10", *options)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "5 x 5" in lines[0]
    assert next(line for line in lines if "published, best" in line).count("57.6%") == 1
    for name, masks in (("bands-3", 16), ("blocks-4", 256)):
        found = summarise(records.read(out / "cifar10" / name / "certify-6.jsonl"))
        assert (found.against, found.masks) == ("patches", masks)
        row = next(line for line in lines if line.startswith(f"| {name} "))
        assert format_percent(found.certified_accuracy_at(2) or 0.0) in row
    assert (out / "figures" / "patches-cifar10.png").is_file()


def test_blocks_are_asked_about_fewer_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless a limit is given; bands are asked about all, and the table says which row is of how many."""
    monkeypatch.setattr(fixed_masks, "BY_BLOCKS", 5)
    choices = [SchemeSpec.parse(name) for name in ("bands-3", "blocks-4")]
    (table,) = patches(Study(tmp_path, data="cifar10"), choices).tables
    images = table.headers.index("images")
    assert [row[images] for row in table.rows] == [str(TESTED), "5", "-"]
    assert len(records.read(tmp_path / "cifar10" / "bands-3" / "certify.jsonl").lines) == TESTED
    assert len(records.read(tmp_path / "cifar10" / "blocks-4" / "certify-5.jsonl").lines) == 5
    assert sum(f"5 of the {TESTED} test images" in note for note in table.notes) == 1


def test_each_study_has_its_masks(out: Path) -> None:
    with pytest.raises(InputError, match="against perturbed pixels masks must be lattice or partition, got bands-3"):
        exact(Study(out, **SMALL), [SchemeSpec.parse("bands-3")])
    with pytest.raises(InputError, match="against a perturbed patch masks must be blocks or bands, got lattice-8x1"):
        patches(Study(out, **SMALL), CHOICES[:1])


def test_every_usual_set_of_masks_can_be_made() -> None:
    for data, side in (("mnist", 28), ("cifar10", 32)):
        for spec in exacts.default_specs(data):
            assert 28 <= len(spec.of(side, side).table) <= 200
        for name in patched.DEFAULT_SCHEMES[data]:
            assert len(SchemeSpec.parse(name).of(side, side).table) in (side, side**2)


def test_what_was_published_names_its_source() -> None:
    assert (names(MEDIANS), names(PATCHES)) == (["partitions", "random-masks"], ["patches"])
    for name in names(MEDIANS):
        assert published_medians(name).of("digits") is None
        assert "arXiv:2302.11628" in published_medians(name).source
    assert "arXiv:2002.10733" in published_patches("patches").source
