"""The CIFAR-10 tables in small: rows made once, printed again without model and data."""

from __future__ import annotations

import json
import lzma
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from sparsecert import datasets, modelfile, records
from sparsecert.datasets import ArrayImages
from sparsecert.errors import InputError
from sparsecert.procedures import Fixed, Sequential
from sparsecert.runs import certify_dataset
from sparsecert.smoothed import Smoothed
from studies.levine_feizi_2020 import ModelSpec, Study, models
from studies.levine_feizi_2020.base_accuracy import base_accuracy, stored_base_accuracy
from studies.levine_feizi_2020.command import command
from studies.levine_feizi_2020.progress import Progress
from studies.levine_feizi_2020.published import published, published_base_accuracy
from studies.levine_feizi_2020.tables import measured_rows
from studies.levine_feizi_2020.training_log import duration, training_log

from .made import TESTED, TRAINED, use_small_data

STAND_INS = "ignore:.*(these are not the images of|the model was trained on)"
pytestmark = [pytest.mark.check, pytest.mark.filterwarnings(STAND_INS)]

KEEPS = [25, 50, 75, 100, 125, 150]
SMALL = ["--n0", 10, "--n", 60]


@pytest.fixture(scope="module", autouse=True)
def _small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        use_small_data(patched, tmp_path_factory.mktemp("photographs"))
        yield


def _invoke(*arguments: object) -> Any:
    environment = {"COLUMNS": "140", "SPARSECERT_DATA": None}
    return CliRunner(env=environment).invoke(command, [*map(str, arguments), "--device", "cpu"])


def _text(*arguments: object) -> str:
    done = _invoke(*arguments)
    assert done.exit_code == 0, done.exception
    text: str = done.stdout
    return text


def _rows(*arguments: object) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = json.loads(_text(*arguments, "--format", "json"))["rows"]
    return rows


def _refusal(*arguments: object) -> str:
    done = _invoke(*arguments)
    assert isinstance(done.exception, InputError), done.exception
    return str(done.exception)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Table 3, made by one command, and the text it printed."""
    out = tmp_path_factory.mktemp("study")
    return out, _text("table-3", *SMALL, "--out", out)


def _without_models(out: Path, target: Path) -> Path:
    """A copy of a study as it would be kept: no models, records compressed."""
    shutil.copytree(out, target, ignore=shutil.ignore_patterns("*.safetensors", ".lock", "figures"))
    for path in target.rglob("*.jsonl"):
        path.with_name(path.name + ".xz").write_bytes(lzma.compress(path.read_bytes()))
        path.unlink()
    return target


def test_table_3_certifies_by_the_usual_recipe_and_takes_accuracy_from_its_votes(made: tuple[Path, str]) -> None:
    out, text = made
    assert sorted(path.name for path in (out / "cifar10").iterdir() if path.is_dir()) == sorted(f"k{k}" for k in KEEPS)
    for keep in KEEPS:
        folder = out / "cifar10" / f"k{keep}"
        assert {"model.safetensors", "training.jsonl", "certify.jsonl"} <= {path.name for path in folder.iterdir()}
        assert not (folder / "predict.jsonl").exists()
        run = records.read(folder / "certify.jsonl").header.run
        assert (run["n0"], run["n"], run["alpha"], run["scheme"]["keep"]) == (10, 60, 0.05, keep)
        assert (run["data"]["inputs"], run["data"]["of"]) == (TESTED, TESTED)
        settings = modelfile.read_header(folder)["facts"]["training"]["settings"]
        assert (settings["recipe"]["name"], settings["recipe"]["masks"]) == ("modern-cifar10", "sample")
    for printed in ("68.41% (1.76%)", "74.21% (1.19%)", "78.25% (0.93%)", "80.91% (0.86%)", "85.22% (0.53%)"):
        assert printed in text
    words = " ".join(text.split())
    for part in ("accuracy from the same votes", "the same distribution", "93.02%", "AAAI 2020", "Table 3"):
        assert part in words
    assert "trained by the recipe modern-cifar10 (2 epochs), which is not the paper's: --recipe paper-cifar10" in words
    assert "images" not in text.splitlines()[3]


def test_table_3_is_printed_again_without_model_and_data(made: tuple[Path, str], tmp_path: Path) -> None:
    kept = _without_models(made[0], tmp_path / "kept")
    assert _text("table-3", *SMALL, "--out", kept, "--data-dir", tmp_path / "nowhere") == made[1]


def test_other_k_are_added_by_name_and_then_stay(made: tuple[Path, str], tmp_path: Path) -> None:
    out = tmp_path / "study"
    shutil.copytree(made[0], out)
    (row,) = _rows("table-3", "--keeps", 10, *SMALL, "--out", out)
    assert (row["k"], row["accuracy published"], row["difference"], row["median published"]) == ("10", "-", "-", "-")
    assert [row["k"] for row in _rows("table-3", *SMALL, "--out", out)] == ["10", *map(str, KEEPS)]
    (out / "cifar10" / "k20").mkdir()  # nothing was measured there
    shutil.copytree(out / "cifar10" / "k10", out / "cifar10" / "k15")  # not of this k
    assert [row["k"] for row in _rows("table-3", *SMALL, "--out", out)] == ["10", *map(str, KEEPS)]


def test_a_row_with_more_images_than_usual_shows_them(
    made: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the usual subset were 6 images: a row that has all of them is taken as it is, beside the others."""
    from studies.levine_feizi_2020 import defaults

    monkeypatch.setitem(defaults.DEFAULTS, "cifar10", replace(defaults.DEFAULTS["cifar10"], limit=6))
    out = tmp_path / "study"
    shutil.copytree(made[0], out, ignore=shutil.ignore_patterns("certify.jsonl"))
    keeps = ["--keeps", "25,50"]
    assert "images" not in _rows("table-3", *keeps, *SMALL, "--out", out)[0]
    _text("table-3", "--keeps", 50, *SMALL, "--limit", 30, "--out", out)
    names = {path.name for path in (out / "cifar10" / "k50").glob("*.jsonl")}
    assert names == {"certify.jsonl", "certify-30.jsonl", "training.jsonl"}
    assert [row["images"] for row in _rows("table-3", *keeps, *SMALL, "--out", out)] == ["6", "30"]
    for path in (out / "cifar10" / "k50").glob("certify.jsonl"):
        path.unlink()
    kept = _without_models(out, tmp_path / "kept")
    text = _text("table-3", *keeps, *SMALL, "--out", kept, "--data-dir", tmp_path / "nowhere")
    assert "6 of the 30 test images, evenly spaced" in " ".join(text.split())
    partial = out / "cifar10" / "k50" / "certify-30.jsonl"
    partial.write_bytes(b"".join(partial.read_bytes().splitlines(keepends=True)[:9]))
    assert [row["k"] for row in _rows("table-3", *keeps, *SMALL, "--out", out)] == ["25", "50"]
    assert len(records.read(out / "cifar10" / "k50" / "certify.jsonl").lines) == 6
    assert "certify-8.jsonl" not in {path.name for path in (out / "cifar10" / "k25").iterdir()}
    _text("table-3", "--keeps", 25, *SMALL, "--limit", 8, "--out", out)
    assert len(records.read(out / "cifar10" / "k25" / "certify-8.jsonl").lines) == 8


def test_more_images_with_other_samples_do_not_stand_in_the_way(
    made: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from studies.levine_feizi_2020 import defaults

    monkeypatch.setitem(defaults.DEFAULTS, "cifar10", replace(defaults.DEFAULTS["cifar10"], limit=6))
    out = tmp_path / "study"
    shutil.copytree(made[0], out, ignore=shutil.ignore_patterns("certify.jsonl"))
    before = _rows("table-3", "--keeps", 25, *SMALL, "--out", out)
    _text("table-3", "--keeps", 25, "--n0", 5, "--n", 20, "--limit", 30, "--out", out)
    assert (out / "cifar10" / "k25" / "certify-30.jsonl").is_file()
    assert _rows("table-3", "--keeps", 25, *SMALL, "--out", out) == before


@pytest.mark.filterwarnings("ignore:fp16 is emulated")
def test_a_row_in_another_precision_says_so(made: tuple[Path, str], tmp_path: Path) -> None:
    out = tmp_path / "study"
    shutil.copytree(made[0], out)
    (out / "cifar10" / "k50" / "certify.jsonl").unlink()
    _text("table-3", "--keeps", 50, *SMALL, "--precision", "fp16", "--out", out)
    rows = _rows("table-3", "--keeps", "25,50", *SMALL, "--out", out)
    assert rows[1]["precision"] == "fp16" != rows[0]["precision"]
    assert "device" not in rows[0]


def test_rows_are_finished_one_after_the_other(tmp_path: Path) -> None:
    """A stopped run has whole rows."""
    seen: list[str] = []

    class Noting(Progress):
        def training(self, label: str) -> Any:
            seen.append(label)
            return super().training(label)

        def inputs(self, label: str, inputs: int, copies: int, noun: str = "inputs") -> Any:
            if noun == "inputs":
                seen.append(label)
            return super().inputs(label, inputs, copies, noun)

    study = Study(tmp_path, data="cifar10", n0=5, n=10, limit=2, progress=Noting())
    measured_rows(study, published("table-3"), [25, 50])
    assert seen == ["training k25", "certifying k25", "training k50", "certifying k50"]


def test_only_small_models_are_trained_side_by_side_on_a_gpu(tmp_path: Path) -> None:
    specs = [ModelSpec(25), ModelSpec(50)]
    for data, device, together in (("cifar10", "cuda", 1), ("mnist", "cuda", 2), ("mnist", "cpu", 1)):
        groups = models.batches(Study(tmp_path, data=data, device=device), specs)
        assert [spec for group in groups for spec in group] == specs
        assert {len(group) for group in groups} == {together}


def test_folders_name_what_is_not_usual(tmp_path: Path) -> None:
    usual, paper = Study(tmp_path, data="cifar10"), Study(tmp_path, data="cifar10", recipe="paper-cifar10")
    assert usual.spec(25).folder == "k25"
    assert usual.spec(75, "mean-fill").folder == "k75-mean-fill"
    assert paper.spec(75).folder == "k75-paper-cifar10"
    assert usual.spec(75, model="resnet18-cifar").folder == "k75"
    assert usual.spec(75, model="resnet50-cifar").folder == "k75-resnet50-cifar"
    assert paper.spec(75, "mean-fill", "resnet50-cifar").folder == "k75-mean-fill-paper-cifar10-resnet50-cifar"
    assert Study(tmp_path, data="cifar10", recipe="modern-cifar10").spec(75) == ModelSpec(75)
    assert paper.recipe_of(paper.spec(75)).name == "paper-cifar10"
    assert usual.recipe_of(usual.spec(75, model="resnet50-cifar")).model == "resnet50-cifar"
    assert usual.folder(usual.spec(25)) == tmp_path / "cifar10" / "k25"
    assert Study(tmp_path, data="some/where/photos").data_folder == tmp_path / "photos"
    for name in ("k25", "k5-mean-fill", "k75-paper-cifar10", "kx", "k0", "k75-mean-fill-paper-cifar10"):
        (tmp_path / "cifar10" / name).mkdir(parents=True)
    assert [spec.folder for spec in usual.found(usual.spec(1))] == ["k25"]
    assert [spec.folder for spec in paper.found(paper.spec(1))] == ["k75-paper-cifar10"]
    with pytest.raises(InputError, match="recipe must be one of"):
        Study(tmp_path, data="cifar10", recipe="mine")


def test_recipes_side_by_side(made: tuple[Path, str], tmp_path: Path) -> None:
    out = made[0]
    assert "holds no k measured with both paper-cifar10 and modern-cifar10" in _refusal("recipes", *SMALL, "--out", out)
    paper = _text("table-3", "--recipe", "paper-cifar10", "--keeps", 75, *SMALL, "--out", out)
    assert "trained by the recipe paper-cifar10 (2 epochs), which is the paper's" in " ".join(paper.split())
    log = out / "cifar10" / "k75" / "training.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    log.write_text("".join(json.dumps({**line, "seconds": 1800.0}) + "\n" for line in lines))
    kept = _without_models(out, tmp_path / "kept")
    rows = _rows("recipes", *SMALL, "--out", kept, "--data-dir", tmp_path / "nowhere")
    assert [(row["k"], row["recipe"]) for row in rows] == [("75", "paper-cifar10"), ("75", "modern-cifar10")]
    assert rows[1]["training time"] == "1 h 00 min"
    assert {row["accuracy published"] for row in rows} == {"78.25% (0.93%)"}


def test_the_training_log(made: tuple[Path, str], tmp_path: Path) -> None:
    study = Study(made[0], data="cifar10")
    log = training_log(study, ModelSpec(25))
    lines = [json.loads(line) for line in (made[0] / "cifar10" / "k25" / "training.jsonl").read_text().splitlines()]
    assert log is not None
    assert (log.epochs, log.accuracy) == (2, lines[-1]["accuracy"])
    assert training_log(study, ModelSpec(26)) is None
    path = tmp_path / "cifar10" / "k25" / "training.jsonl"
    path.parent.mkdir(parents=True)
    for text in ("", "{}\n", "[]\n", "nonsense\n"):
        path.write_text(text)
        with pytest.raises(InputError, match=r"training.jsonl is damaged"):
            training_log(Study(tmp_path, data="cifar10"), ModelSpec(25))
    assert [duration(seconds) for seconds in (None, 12.3, 90, 3_600, 7_500)] == [
        "-", "12 s", "2 min", "1 h 00 min", "2 h 05 min",
    ]  # fmt: skip


def test_base_accuracy_is_the_share_of_right_copies(made: tuple[Path, str]) -> None:
    """Counted again image by image, from the masks that prediction draws."""
    from sparsecert.runs import load_batch
    from sparsecert.schemes import PREDICTION

    study = Study(made[0], data="cifar10", n=7, limit=20)
    base, smoothed = base_accuracy(study, ModelSpec(100)), models.load(study, ModelSpec(100))
    for split, share in (("train", base.training), ("test", base.test)):
        data = datasets.load("cifar10", split)
        right = 0
        for example in data.spaced_indices(20).tolist():
            votes = smoothed.count(load_batch(data, [example]), PREDICTION, 7, 0, examples=[example])
            right += int(votes.votes[0, data.labels[example]])
        assert (share.correct, share.images, share.of) == (right, 20, len(data))
    assert base.training_accuracy == base.training.correct / 140
    assert stored_base_accuracy(study, ModelSpec(100)) == base
    for changed, message in (
        ({"n": 8}, "was made with copies 7, not 8"),
        ({"limit": 21}, "was made with training images 20, not 21"),
        ({"limit": None}, f"was made with training images 20, not {TRAINED}"),
        ({"seed": 1}, r"to another run \(seed differs\)"),
        ({"precision": "fp16"}, "was made with precision .*, not fp16"),
    ):
        with pytest.raises(InputError, match=message):
            base_accuracy(Study(made[0], data="cifar10", **{"n": 7, "limit": 20, **changed}), ModelSpec(100))
    path = made[0] / "cifar10" / "k100" / "base.json"
    whole = path.read_text()
    for text in (whole.replace(base.model, "ab"), whole.replace('"correct": ', '"correct": 99'), "{"):
        path.write_text(text)
        with pytest.raises(InputError, match=r"was made with model|is damaged"):
            base_accuracy(study, ModelSpec(100))
    path.unlink()


def test_tables_4_and_5(made: tuple[Path, str], tmp_path: Path) -> None:
    """Both recipes that are there stand side by side; printed again from base.json and the log alone."""
    out = tmp_path / "study"
    shutil.copytree(made[0], out)
    rows = _rows("table-4", "--out", out)
    assert [row["k"] for row in rows] == [str(keep) for keep in KEEPS]
    assert "recipe" not in rows[0]
    printed = published_base_accuracy("table-4").rows
    for row, known in zip(rows, printed, strict=True):
        folder = out / "cifar10" / f"k{row['k']}"
        last = json.loads((folder / "training.jsonl").read_text().splitlines()[-1])["accuracy"]
        base = json.loads((folder / "base.json").read_text())
        fresh, test = (base[name]["correct"] / base[name]["images"] / 10 for name in ("training", "test"))
        assert (base["training"]["images"], base["test"]["images"], base["copies"]) == (TRAINED, TESTED, 10)
        assert base["model"] == modelfile.fingerprint(folder)
        assert row["training, last epoch"] == f"{100 * last:.2f}%"
        assert (row["training, fresh masks"], row["test"]) == (f"{100 * fresh:.2f}%", f"{100 * test:.2f}%")
        assert (row["gap, last epoch"], row["gap, fresh masks"]) == (
            f"{100 * (last - test):.2f}",
            f"{100 * (fresh - test):.2f}",
        )
        assert (row["training published"], row["test published"]) == (f"{known.training:.2f}%", f"{known.test:.2f}%")
    assert rows[0]["gap published"] == "25.44"
    both = _text("table-4", "--recipe", "paper-cifar10", "--keeps", "75", "--out", out)
    five = _text("table-5", "--keeps", "25", "--out", out)
    assert (out / "cifar10" / "k25-resnet50-cifar" / "base.json").is_file()
    assert modelfile.read_header(out / "cifar10" / "k25-resnet50-cifar")["architecture"]["name"] == "resnet50-cifar"
    assert "83.89%" in five
    kept = _without_models(out, tmp_path / "kept")
    nowhere = ["--out", kept, "--data-dir", tmp_path / "nowhere"]
    assert _text("table-4", "--recipe", "paper-cifar10", "--keeps", "75", *nowhere) == both
    assert _text("table-5", "--keeps", "25", *nowhere) == five
    side_by_side = _rows("table-4", "--keeps", "50,75", *nowhere)
    assert [(row["k"], row["recipe"]) for row in side_by_side] == [
        ("50", "modern-cifar10"),
        ("75", "paper-cifar10"),
        ("75", "modern-cifar10"),
    ]
    refused = _refusal("table-5", "--keeps", "50", *nowhere)
    assert "cifar10 was not found" in refused


def test_table_8_of_cifar10(made: tuple[Path, str], tmp_path: Path) -> None:
    out = tmp_path / "study"
    shutil.copytree(made[0], out)
    rows = _rows("table-8", "--data", "cifar10", *SMALL, "--out", out)
    assert [(row["encoding"], row["accuracy published"]) for row in rows] == [
        ("null-channels", "78.25% (0.93%)"),
        ("mean-fill", "77.71% (1.05%)"),
    ]
    header = records.read(out / "cifar10" / "k75-mean-fill" / "certify.jsonl").header
    assert header.run["encoding"]["kind"] == "mean-fill"
    assert not (out / "mnist").exists()


def test_curves_of_cifar10(made: tuple[Path, str], tmp_path: Path) -> None:
    kept = _without_models(made[0], tmp_path / "kept")
    _text("curves", "--data", "cifar10", *SMALL, "--out", kept, "--data-dir", tmp_path / "nowhere")
    with Image.open(kept / "figures" / "curves-cifar10.png") as image:
        assert len(np.unique(np.asarray(image.convert("L")))) > 20
    assert not (kept / "figures" / "curves.png").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table-3", "--data", "cifar10"], "--data has no effect on table-3; leave it out"),
        (["table-4", "--n0", "5"], "--n0 has no effect on table-4; leave it out"),
        (["figure-1", "--recipe", "paper-mnist"], "--recipe has no effect on figure-1"),
        (["recipes", "--recipe", "paper-cifar10"], "--recipe has no effect on recipes"),
        (["recipes", "--data", "mnist"], "--data must be one of cifar10, imagenette for recipes, got 'mnist'"),
        (["table-8", "--data", "imagenette"], "--data must be one of mnist, cifar10 for table-8, got 'imagenette'"),
        (["table-6", "--data", "mnist"], "--data must be one of imagenette, imagenet, a folder of train/ and val/"),
        (["table-3", "--recipe", "mine"], "recipe must be one of"),
        (
            ["table-8", "--recipe", "paper-cifar10"],
            "--recipe is for one data set, these targets have mnist and cifar10",
        ),
        (["table-1", "table-3", "--recipe", "paper-cifar10"], "--recipe is for one data set, these targets have mnist"),
    ],
)
def test_what_has_no_meaning_is_refused(tmp_path: Path, arguments: list[str], message: str) -> None:
    assert message in _refusal(*arguments, "--out", tmp_path)
    assert not any(tmp_path.iterdir())


def test_records_of_other_inputs_or_samples_are_refused(made: tuple[Path, str], tmp_path: Path) -> None:
    """Such as `sparsecert certify` writes into the folder of a model: of the training set, or with fewer samples."""
    folder = tmp_path / "cifar10" / "k25"
    shutil.copytree(made[0] / "cifar10" / "k25", folder, ignore=shutil.ignore_patterns("certify.jsonl"))
    smoothed, path = Smoothed.load(folder), folder / "certify.jsonl"
    for split, name, sampling, message in (
        ("train", "cifar10", None, "was made with split train, not test"),
        ("test", "others", None, "was made with data name others, not cifar10"),
        ("test", "cifar10", Sequential(max_samples=70, n0=10), "was made with sampling {'kind': 'sequential'"),
    ):
        data = replace(datasets.load("cifar10", split), name=name)
        certify_dataset(smoothed, folder, data, path, sampling or Fixed(10, 60))
        assert message in _refusal("table-3", "--keeps", 25, *SMALL, "--out", tmp_path)
        path.unlink()


def test_another_training_set_is_refused(made: tuple[Path, str], tmp_path: Path) -> None:
    path = tmp_path / "cifar10" / "training-set.json"
    path.parent.mkdir()
    known = json.loads((made[0] / "cifar10" / "training-set.json").read_text())
    assert (known["images"], known["classes"]) == (TRAINED, 10)
    for text, message in ((json.dumps({**known, "images": 50_000}), "is of another training set"), ("{", "is damaged")):
        path.write_text(text)
        assert message in _refusal("table-3", "--keeps", 25, *SMALL, "--out", tmp_path)


def test_records_of_two_test_sets_do_not_stand_side_by_side(
    made: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one name: neither are more made of the one beside records of the other, nor are such records shown."""
    folders = [tmp_path / "cifar10" / name for name in ("k25", "k50")]
    for folder in folders:
        shutil.copytree(made[0] / "cifar10" / folder.name, folder, ignore=shutil.ignore_patterns("certify*"))
    load, path = datasets.load, folders[0] / "certify.jsonl"
    pixels = load("cifar10", "test").images.batch(range(TESTED))
    others = replace(load("cifar10", "test"), images=ArrayImages(255 - pixels))
    certify_dataset(Smoothed.load(folders[0]), folders[0], load("cifar10", "test"), path, n0=10, n=60)
    table = ("table-3", "--keeps", "25,50", *SMALL, "--out", tmp_path)
    with monkeypatch.context() as changed:
        changed.setattr(datasets, "load", lambda name, split, *_: others if split == "test" else load(name, split))
        assert f"{path} is of other test images than the cifar10 that is here" in _refusal(*table)
    second = folders[1] / "certify.jsonl"
    certify_dataset(Smoothed.load(folders[1]), folders[1], others, second, n0=10, n=60)
    assert f"{path} is of other test images than {second}; name another --out folder" in _refusal(*table)
    second.unlink()
    assert [row["k"] for row in _rows(*table)] == ["25", "50"]
