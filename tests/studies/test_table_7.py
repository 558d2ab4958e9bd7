"""Table 7 in small: ablation and random values side by side, and the paper's own figures below them."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sparsecert import modelfile, records
from sparsecert.errors import InputError
from sparsecert.reports import summarise
from sparsecert.schemes import RandomValues
from studies.levine_feizi_2020 import Study, record_files
from studies.levine_feizi_2020.command import command
from studies.levine_feizi_2020.model_spec import RandomValuesSpec
from studies.levine_feizi_2020.models import CERTIFY
from studies.levine_feizi_2020.published import SCHEMES, names, published, published_schemes
from studies.levine_feizi_2020.table_7 import SWEEPS, table_7
from tests.commands import study as study_command

pytestmark = pytest.mark.check

SMALL: dict[str, Any] = {"limit": 4, "epochs": 1, "n0": 10, "n": 60}
OPTIONS = [f"--{name}={value}" for name, value in SMALL.items()]


@pytest.fixture(scope="module")
def made(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small study of one kappa of each number of values."""
    out = tmp_path_factory.mktemp("study")
    study = Study(out, data_dir=data, **SMALL)
    table_7(study, kappas=["0.1"])
    table_7(study, kappas=["0.8"], values=2)
    return out


def _table(out: Path, data: Path, *more: str) -> dict[str, Any]:
    arguments = ["table-7", *OPTIONS, "--out", str(out), "--data-dir", str(data), "--device", "cpu", *more]
    done = CliRunner(env={"COLUMNS": "160"}).invoke(command, [*arguments, "--format", "json"])
    assert done.exit_code == 0, done.exception
    table: dict[str, Any] = json.loads(done.stdout)
    return table


def test_both_schemes_stand_beside_what_was_published(made: Path, data: Path) -> None:
    table = _table(made, data, "--kappas", "0.1")
    ours, theirs, *printed = table["rows"]
    assert (ours["scheme"], ours["k"], ours["kappa"]) == ("ablation", "45", "-")
    assert (theirs["scheme"], theirs["values"], theirs["kappa"], theirs["k"]) == ("random values", "256", "0.1", "-")
    assert [(row["scheme"], row["median"]) for row in printed] == [
        ("ablation, published", "8"),
        ("random values, published", "4"),
    ]
    for row, folder in ((ours, "k45"), (theirs, "kappa-0.1")):
        found = records.read(made / "mnist" / folder / "certify.jsonl")
        one, two = (summarise(found, bound=bound) for bound in ("one-sided", "two-sided"))
        medians = ["N/A" if summary.median is None else str(summary.median) for summary in (one, two)]
        assert [row["median"], row["two-sided median"]] == medians
        assert row["accuracy"].startswith(f"{100 * one.accuracy:.2f}%")
        assert row["images"] == "4"
    assert any("mnist-cnn, trained by the recipe paper-mnist (1 epochs)" in note for note in table["notes"])
    assert any("published for imagenet: random values 1, ablation 16" in note for note in table["notes"])


def test_a_kappa_that_is_written_in_two_ways_is_one_row(made: Path, data: Path) -> None:
    rows = _table(made, data, "--kappas", "1/10,0.10,0.1")["rows"]
    assert [row["kappa"] for row in rows if row["scheme"] == "random values"] == ["0.1"]


def test_it_is_printed_again_from_the_records_alone(made: Path, data: Path, tmp_path: Path) -> None:
    for path in made.rglob("*.jsonl"):
        target = tmp_path / path.relative_to(made)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    chosen = "--kappas=0.8", "--values=2"
    assert _table(tmp_path, data / "nowhere", *chosen) == _table(made, data, *chosen)


def test_ablation_of_all_images_stands_beside_random_values_of_some(made: Path, data: Path, tmp_path: Path) -> None:
    """The same images for both: no ablation is certified again."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "mnist" / "k45" / "certify.jsonl"
    path.unlink()
    every = Study(tmp_path, data_dir=data, **{**SMALL, "limit": None})
    sampling = replace(every.sampling(published("table-1").sampling), predict_n=None)
    record_files.make(every, every.spec(45), CERTIFY, sampling)
    before = path.read_bytes()
    assert before.count(b"\n") == 101
    some, all_of_them = _table(made, data, "--kappas", "0.1"), _table(tmp_path, data, "--kappas", "0.1")
    assert some["rows"] == all_of_them["rows"]
    assert path.read_bytes() == before


def test_the_classifiers_share_architecture_and_recipe(made: Path) -> None:
    ours, theirs, binary = (
        modelfile.read_header(made / "mnist" / name) for name in ("k45", "kappa-0.1", "kappa-0.8-values-2")
    )
    assert ours["architecture"] == {**theirs["architecture"], "channels": 2}
    assert theirs["architecture"]["channels"] == 1
    assert theirs["scheme"] == RandomValues(784, "0.1").config()
    assert binary["scheme"] == RandomValues(784, "0.8", 2).config()
    one, other = (header["facts"]["training"]["settings"]["recipe"] for header in (ours, theirs))
    assert {**one, "masks": "sample"} == other


def test_records_of_another_kappa_are_refused(made: Path, data: Path, tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    for name, target in (("k45", "k45"), ("kappa-0.2", "kappa-0.1")):
        (tmp_path / "mnist" / name).symlink_to(made / "mnist" / target)
    with pytest.raises(InputError, match=r"was made with kappa 0.1, not 0.2; name another --out folder"):
        table_7(Study(tmp_path, data_dir=data, **SMALL), kappas=["0.2"])


@pytest.mark.parametrize("kappa", ["1e999999999", "0." + "1" * 10_000])
def test_a_kappa_that_no_memory_holds_is_refused_at_once(tmp_path: Path, kappa: str) -> None:
    done = study_command("table-7", "--kappas", kappa, "--out", tmp_path / "run")
    assert done.returncode == 2
    assert "kappa must be a number above 0 and at most 1" in done.stderr
    assert not (tmp_path / "run").exists()


def test_the_usual_kappas_are_possible_and_have_folders_of_their_own() -> None:
    specs = [RandomValuesSpec(kappa=kappa, values=values) for values, kappas in SWEEPS.items() for kappa in kappas]
    assert all(spec.scheme((1, 28, 28)).units == 784 for spec in specs)
    assert len({spec.folder for spec in specs}) == len(specs)
    assert RandomValuesSpec(kappa="1/3").folder == "kappa-1-of-3"
    with pytest.raises(InputError, match="kappa must be above 1 / 2"):
        RandomValuesSpec(kappa="0.5", values=2).scheme((1, 28, 28))


def test_the_published_figures() -> None:
    """Table 7 of the paper."""
    assert names(SCHEMES) == ["table-7"]
    known = published_schemes("table-7")
    assert [(row.data, row.random_values, row.ablation) for row in known.rows] == [("mnist", 4, 8), ("imagenet", 1, 16)]
    assert "Table 7" in known.source
