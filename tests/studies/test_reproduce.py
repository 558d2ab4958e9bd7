"""The study from data to tables and figures, in small: what is missing is made, what is there is used."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from sparsecert import datasets, modelfile, records
from sparsecert.errors import InputError
from studies.levine_feizi_2020 import ModelSpec, Study, models
from studies.levine_feizi_2020.command import NAME, command
from studies.levine_feizi_2020.figure_1 import base_labels
from studies.levine_feizi_2020.published import BASE_ACCURACY, names, published, published_base_accuracy
from studies.levine_feizi_2020.tables import best, measured_rows, table
from studies.levine_feizi_2020.targets import TARGETS
from tests.commands import study as reproduce

pytestmark = pytest.mark.check

SMALL = {"limit": 6, "epochs": 2, "n0": 20, "n": 100}
OPTIONS = [f"--{name}={value}" for name, value in SMALL.items()]


@pytest.fixture(scope="module")
def made(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A small study, made by the command line, and the table it printed."""
    out = tmp_path_factory.mktemp("study")
    done = reproduce("table-1", "--keeps", "40,45", *OPTIONS, "--out", out, "--data-dir", data)
    assert done.returncode == 0, done.stderr
    return out, done.stdout


def test_trains_predicts_certifies_and_prints_measured_beside_published(made: tuple[Path, str]) -> None:
    out, text = made
    for keep in (40, 45):
        folder = out / "mnist" / f"k{keep}"
        names = {path.name for path in folder.iterdir()}
        assert {"model.safetensors", "training.jsonl", "certify.jsonl", "predict.jsonl"} <= names
        certified, predicted = (records.read(folder / f"{kind}.jsonl") for kind in ("certify", "predict"))
        assert len(certified.lines) == len(predicted.lines) == 6
        assert certified.header.run["scheme"]["keep"] == keep
        assert certified.header.run["model"] == predicted.header.run["model"]
        assert (certified.header.run["n0"], certified.header.run["n"], predicted.header.run["n"]) == (20, 100, 100)
        assert certified.header.run["alpha"] == 0.05
    assert "96.27% (0.52%)" in text
    assert "96.72% (0.45%)" in text
    for word in ("n0 = 20, n = 100, alpha = 0.05, seed = 0, 6 inputs", "AAAI 2020", "largest median, two-sided"):
        assert word in " ".join(text.split())


def test_what_is_there_is_used(made: tuple[Path, str], data: Path) -> None:
    """Without its models and without data, compressed, the study still prints the same table."""
    out, text = made
    moved = out.parent / "moved"
    for path in out.rglob("*.jsonl"):
        target = moved / path.relative_to(out).with_name(path.name + ".xz")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(lzma.compress(path.read_bytes()))
    done = reproduce("table-1", "--keeps", "40,45", *OPTIONS, "--out", moved, "--data-dir", data / "nowhere")
    assert done.returncode == 0, done.stderr
    assert done.stdout == text
    assert not list(moved.rglob("*.safetensors"))


def test_a_records_file_that_was_begun_is_finished(made: tuple[Path, str], data: Path) -> None:
    out, text = made
    path = out / "mnist" / "k45" / "certify.jsonl"
    whole = path.read_bytes()
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:4]) + b'{"exam')
    done = reproduce("table-1", "--keeps", "40,45", *OPTIONS, "--out", out, "--data-dir", data)
    assert done.returncode == 0, done.stderr
    assert done.stdout == text
    assert [line.votes for line in records.read(path).lines] == _votes(whole, path)


def _votes(data: bytes, path: Path) -> list[Any]:
    other = path.with_name("whole.jsonl")
    other.write_bytes(data)
    votes = [line.votes for line in records.read(other).lines]
    other.unlink()
    return votes


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"limit": 5}, "was made with limit 6, not 5; name another --out folder"),
        ({"seed": 3}, "was made with seed 0, not 3"),
        ({"n": 99}, "was made with n 100, not 99"),
        ({"n0": 21}, "was made with n0 20, not 21"),
        ({"precision": "fp16"}, "was made with precision (bf16|fp32), not fp16"),
        ({"epochs": 3}, r"model.safetensors belongs to another run \(recipe differs\)"),
    ],
)
def test_records_of_other_settings_are_refused(
    made: tuple[Path, str], data: Path, changed: dict[str, Any], message: str
) -> None:
    study = Study(made[0], data_dir=data, **{**SMALL, **changed})
    with pytest.raises(InputError, match=message):
        table(study, "table-1", [45])


def test_records_in_the_wrong_folder_are_refused(made: tuple[Path, str], tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "k35").symlink_to(made[0] / "mnist" / "k45")
    with pytest.raises(InputError, match="was made with keep 45, not 35; name another --out folder"):
        table(Study(tmp_path, **SMALL), "table-1", [35])


def test_what_cannot_be_done_is_refused_before_any_training(data: Path, tmp_path: Path) -> None:
    for changed, keeps, message in (
        ({}, [45, 900], r"keep must be a whole number between 1 and units \(784\), got 900"),
        ({"n": 1 << 40}, [45], "n must be"),
    ):
        study = Study(tmp_path / "out", data_dir=data, **{**SMALL, **changed})
        with pytest.raises(InputError, match=message):
            table(study, "table-1", keeps)
        assert not (tmp_path / "out").exists()


def test_records_are_not_joined_by_those_of_another_model(made: tuple[Path, str], data: Path, tmp_path: Path) -> None:
    """Neither when the model is gone, nor when another one lies in its place, nor from another number of epochs."""
    folder = tmp_path / "mnist" / "k45"
    folder.mkdir(parents=True)
    for name in ("certify.jsonl", "training.jsonl"):
        (folder / name).write_bytes((made[0] / "mnist" / "k45" / name).read_bytes())
    with pytest.raises(InputError, match="k45 holds records but not their model"):
        table(Study(tmp_path, data_dir=data, **SMALL), "table-1", [45])
    with pytest.raises(InputError, match="is of 2 epochs, not 400"):
        table(Study(tmp_path, data_dir=data, **{**SMALL, "epochs": None}), "footnote", [45])
    found, header = modelfile.read(made[0] / "mnist" / "k45")
    modelfile.write(folder / "model.safetensors", {name: t + 1 for name, t in found.items()}, header)
    with pytest.raises(InputError, match=r"certify\.jsonl was made with another model than"):
        table(Study(tmp_path, data_dir=data, **SMALL), "table-1", [45])


def test_a_records_file_without_a_whole_header_is_begun_anew(made: tuple[Path, str], data: Path) -> None:
    path = made[0] / "mnist" / "k45" / "predict.jsonl"
    whole = path.read_bytes()
    for partial in (b"", whole[:40]):
        path.write_bytes(partial)
        table(Study(made[0], data_dir=data, **SMALL), "table-1", [45])
        assert len(records.read(path).lines) == 6


def test_keeps_choose_the_rows_of_a_table_whatever_their_encoding(made: tuple[Path, str], data: Path) -> None:
    rows = measured_rows(Study(made[0], data_dir=data, **SMALL), published("table-8-mnist"), [45])
    assert [row.spec for row in rows] == [ModelSpec(45), ModelSpec(45, "mean-fill")]
    with pytest.raises(InputError, match="Table 8 is of k = 45 alone, keeps has 30"):
        measured_rows(Study(made[0], data_dir=data, **SMALL), published("table-8-mnist"), [30])


def test_the_other_tables(data: Path, made: tuple[Path, str]) -> None:
    out, _ = made
    choices = ["--data", "mnist", *OPTIONS, "--out", out, "--data-dir", data, "--format", "json"]
    done = reproduce("table-8", "footnote", *choices)
    assert done.returncode == 0, done.stderr
    both = reproduce("table-8", *choices[2:])  # CIFAR-10 is to follow, and is not there
    assert both.returncode == 2
    assert _json_values(both.stdout) == _json_values(done.stdout)[:1]
    assert "cifar10" in both.stderr.splitlines()[-1]
    encodings, footnote = _json_values(done.stdout)
    assert [row["encoding"] for row in encodings["rows"]] == ["null-channels", "mean-fill"]
    assert [row["accuracy published"] for row in encodings["rows"]] == ["96.72% (0.45%)", "96.27% (0.43%)"]
    assert [row["median published"] for row in encodings["rows"]] == ["8", "7"]
    found = records.read(out / "mnist" / "k45-mean-fill" / "certify.jsonl")
    assert found.header.run["encoding"] == {"kind": "mean-fill", "mean": [0.13066]}
    (row,) = footnote["rows"]
    assert (row["accuracy published"], row["median published"]) == ("-", "8")
    assert records.read(out / "mnist" / "k45" / "certify-alpha-0.001.jsonl").header.run["alpha"] == 0.001


def _json_values(text: str) -> list[Any]:
    decoder, values, place = json.JSONDecoder(), [], 0
    while text[place:].strip():
        value, end = decoder.raw_decode(text[place:].lstrip())
        place += len(text[place:]) - len(text[place:].lstrip()) + end
        values.append(value)
    return values


def test_the_figures(data: Path, made: tuple[Path, str]) -> None:
    out, _ = made
    targets = ["figure-1", "figure-2", "figure-4", "curves"]
    done = reproduce(*targets, "--keeps", "40,45", *OPTIONS, "--out", out, "--data-dir", data)
    assert done.returncode == 0, done.stderr
    for target in targets:
        assert f"wrote {out}/figures/{target}.png" in done.stderr
        with Image.open(out / "figures" / f"{target}.png") as image:
            assert len(np.unique(np.asarray(image.convert("L")))) > 20
        assert b"</svg>" in (out / "figures" / f"{target}.svg").read_bytes()


def test_figure_1_shows_the_labels_of_the_base_classifier(data: Path, made: tuple[Path, str]) -> None:
    """Drawn again, the labels come from their file; they are those of the first estimation copies."""
    import torch

    from sparsecert.schemes import ESTIMATION

    study = Study(made[0], data_dir=data, **SMALL)
    sha256 = {45: modelfile.fingerprint(made[0] / "mnist" / "k45")}
    labels = base_labels(study, sha256)
    smoothed = models.load(study, ModelSpec(45))
    image = torch.from_numpy(datasets.load("mnist-sample").images.batch([0])).float() / 255
    votes = smoothed.count(image, ESTIMATION, 4, seed=0)
    assert np.bincount(labels[45], minlength=10).tolist() == votes.votes[0].tolist()
    (made[0] / "mnist" / "k45" / "model.safetensors").rename(made[0] / "away")
    try:
        assert base_labels(study, sha256) == labels
    finally:
        (made[0] / "away").rename(made[0] / "mnist" / "k45" / "model.safetensors")
    with pytest.raises(InputError, match="is of another seed or image"):
        base_labels(Study(made[0], data_dir=data, seed=1, **SMALL), sha256)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table-1", "--keeps", "forty"], "keeps must be whole numbers from 1 on with commas between"),
        (["table-1", "--keeps", "0"], "keeps must be whole numbers from 1 on"),
        (["table-1", "--keeps", "45"], "mnist was not found in"),
        (["table-1", "--keeps", "45", "--limit", "-3"], "limit must be at least 1, got -3"),
        (["table-1", "--keeps", "45", "--seed", str(1 << 64)], "seed must be a whole number"),
        (["figure-2", "--keeps", "45"], "--keeps has no effect on figure-2; leave it out"),
        (["figure-3", "figure-4", "--epochs", "3"], "--epochs has no effect on figure-3, figure-4"),
        (["table-9"], "Invalid value"),
        ([], "Missing argument"),
    ],
)
def test_mistakes_end_in_one_line(tmp_path: Path, arguments: list[str], message: str) -> None:
    done = reproduce(*arguments, "--out", tmp_path / "out", "--data-dir", tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.rglob("*.safetensors"))


def test_the_best_k_has_the_largest_median_and_then_the_most_certified_there(made: tuple[Path, str]) -> None:
    rows = measured_rows(Study(made[0], **SMALL), published("table-1"), [40, 45])
    for summaries in ([row.one_sided for row in rows], [row.two_sided for row in rows]):
        chosen = best(summaries)
        for other in summaries:
            medians = [-1 if s.median is None else s.median for s in (chosen, other)]
            assert medians[0] >= medians[1]
            if medians[0] == medians[1]:
                at = max(medians[0], 0)
                assert (chosen.certified_accuracy_at(at) or 0) >= (other.certified_accuracy_at(at) or 0)


def test_published_tables_say_where_they_are_from() -> None:
    for name in names():
        known = published(name)
        assert "AAAI 2020" in known.source
        assert known.data in ("mnist", "cifar10", "imagenet")
        for row in known.rows:
            assert row.accuracy is None or 0 < row.accuracy + (row.abstained or 0) <= 100
    assert [row.keep for row in published("table-1").rows] == list(range(5, 101, 5))
    assert [row.keep for row in published("table-3").rows] == list(range(25, 151, 25))
    assert [row.median_among_certified for row in published("table-6").rows] == [63, 33, 16]
    assert {published(name).sampling.n for name in names() if name != "footnote"} == {10_000}
    with pytest.raises(InputError, match=r"published table must be one of footnote, table-1, .* got 'table-99'"):
        published("table-99")
    with pytest.raises(InputError, match=r"published table must be one of footnote, .*, got 'table-4'"):
        published("table-4")


def test_published_tables_agree_where_they_show_the_same_classifier() -> None:
    for by_encoding, over_k in (("table-8-mnist", "table-1"), ("table-8-cifar10", "table-3")):
        multichannel = published(by_encoding).rows[0]
        assert multichannel in published(over_k).rows


def test_published_base_accuracies() -> None:
    assert names(BASE_ACCURACY) == ["table-4", "table-5"]
    smaller, larger = (published_base_accuracy(name) for name in names(BASE_ACCURACY))
    assert (smaller.model, larger.model) == ("resnet18-cifar", "resnet50-cifar")
    for one, other in zip(smaller.rows, larger.rows, strict=True):
        assert one.keep == other.keep
        assert (other.gap < one.gap) == (one.keep > 25)  # what the paper says of its two tables
    with pytest.raises(InputError, match="published table must be one of table-4, table-5, got 'table-1'"):
        published_base_accuracy("table-1")


def test_the_help_lists_every_target_with_its_data() -> None:
    lines = {line.split()[0]: line for line in (command.help or "").splitlines() if line.strip()}
    for target in TARGETS:
        assert target in lines
        assert target == "figure-2" or any(name in lines[target] for name in ("MNIST", "CIFAR-10", "Imagenette"))


def test_the_help_has_examples_and_fits_a_terminal_of_80_columns() -> None:
    text = CliRunner().invoke(command, ["--help"], terminal_width=80).output
    assert f"  {NAME} table-1\n" in text
    assert max(map(len, text.splitlines())) <= 80


def test_every_option_of_a_target_is_one_of_the_command() -> None:
    known = {parameter.name for parameter in command.params}
    for target in TARGETS.values():
        assert {*target.options} <= known
        assert ("data" in target.options) == (len(target.data) > 1)
