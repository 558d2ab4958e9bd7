"""Data of one's own on the command line, and what is said of data that are not those of the model."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sparsecert import datasets, modelfile, records, runs
from sparsecert.datasets import provenance
from sparsecert.errors import InputError
from sparsecert.records import read
from sparsecert.smoothed import Smoothed
from tests.commands import sparsecert
from tests.datasets.made import write_image, write_mnist, write_small_mnist

NAMES = "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"
QUICK = "--epochs", 1, "--device", "cpu"
FEW = "--limit", 2, "--n0", 10, "--n", 20, "--device", "cpu"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Digits as data of one's own, with names, and a model trained on them."""
    root = tmp_path_factory.mktemp("own")
    arrays = {}
    for split in ("train", "test"):
        digits = datasets.load("digits", split)
        arrays |= {f"x_{split}": digits.images.batch(range(100))[:, 0], f"y_{split}": digits.labels[:100]}
    np.savez(root / "own.npz", classes=np.array(NAMES), **arrays)
    np.savez(root / "test.npz", classes=np.array(NAMES), x=arrays["x_test"], y=arrays["y_test"])
    np.savez(root / "moved.npz", classes=np.array(NAMES), **arrays)
    trained = sparsecert("train", "--data", "own.npz", "--out", "run", *QUICK, cwd=root)
    assert trained.returncode == 0, trained.stderr
    assert trained.stdout.splitlines()[-1] == "next: sparsecert certify run --data own.npz --out run/certify.jsonl"
    return root


def test_data_of_ones_own_from_training_to_the_page(folder: Path) -> None:
    facts = modelfile.read_header(folder / "run")["facts"]
    assert (facts["data"], facts["shape"], facts["class_names"]) == ("own.npz", [1, 8, 8], [*NAMES])
    done = sparsecert("certify", "run", "--data", "own.npz", *FEW, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr
    assert read(folder / "run" / "certify.jsonl").header.run["data"]["class_names"] == [*NAMES]
    page = folder / "page.html"
    assert sparsecert("report", "run/certify.jsonl", "--html", page, cwd=folder).returncode == 0
    text = page.read_text()
    assert "data:image/png" in text
    assert "seven" in text


def test_the_same_images_elsewhere_are_no_other_data_set(folder: Path) -> None:
    done = sparsecert("predict", "run", "--data", "moved.npz", "--limit", 2, "--n", 20, "--out", "m.jsonl", cwd=folder)
    assert (done.returncode, "warning" in done.stderr) == (0, False)


def test_the_training_images_and_other_data_sets_are_noticed(folder: Path) -> None:
    facts = modelfile.read_header(folder / "run")["facts"]

    def said(name: str, split: str = "test") -> str | None:
        return provenance.other_training(datasets.load(name, split), facts)

    own = str(folder / "own.npz")
    assert said(own) is None
    assert said(own, "train") == f"{own} train: these are the images that the model was trained on"
    assert said(str(folder / "test.npz")) == (
        f"the model was trained on own.npz, not on {folder / 'test.npz'}; its answers may be poor here"
    )
    assert said("digits") == "the model was trained on own.npz, not on digits; its answers may be poor here"
    train = datasets.load(own, "train")
    np.savez(folder / "again.npz", images=train.images.batch(range(100)), labels=train.labels)
    again = str(folder / "again.npz")
    assert said(again) == f"{again} test: these are the images that the model was trained on"


@pytest.mark.parametrize("run", [runs.certify_dataset, runs.predict_dataset])
def test_python_warns_of_other_data_too(run: Callable[..., None], folder: Path, tmp_path: Path) -> None:
    smoothed = Smoothed.load(folder / "run")
    with pytest.warns(UserWarning, match=r"the model was trained on own\.npz, not on digits"):
        run(smoothed, folder / "run", datasets.load("digits"), tmp_path / "digits.jsonl", n=20, limit=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        own = datasets.load(str(folder / "own.npz"))
        run(smoothed, folder / "run", own, tmp_path / "own.jsonl", n=20, limit=2)
    for name in ("digits", "own"):  # a warning, not a refusal
        assert len(records.read(tmp_path / f"{name}.jsonl").lines) == 2


def test_a_model_saved_from_python_knows_its_images_as_a_trained_one(folder: Path, tmp_path: Path) -> None:
    trained = Smoothed.load(folder / "run")
    data = datasets.load(str(folder / "own.npz"), "train")
    path = tmp_path / "m.safetensors"
    Smoothed(trained.model, trained.scheme, trained.encoding, metadata=data.metadata()).save(path)
    facts = modelfile.read_header(path)["facts"]
    assert {**facts, "data": "", "training": None} == {
        **{name: trained.metadata[name] for name in facts}, "data": "", "training": None
    }  # fmt: skip
    wrong = provenance.other_training(datasets.load("digits"), facts)
    assert wrong == f"the model was trained on {data.name}, not on digits; its answers may be poor here"
    assert provenance.other_training(datasets.load(str(folder / "moved.npz")), facts) is None
    assert provenance.other_training(data, facts) is not None


def test_another_shape_or_other_classes_are_refused(folder: Path, tmp_path: Path) -> None:
    done = sparsecert("certify", "run", "--data", "mnist-sample", *FEW, cwd=folder)
    message = "the model was trained on inputs of shape 1 x 8 x 8, mnist-sample has 1 x 28 x 28"
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    np.savez(tmp_path / "few.npz", x=np.zeros((2, 8, 8), np.uint8), y=np.arange(2))
    facts = modelfile.read_header(folder / "run")["facts"]
    with pytest.raises(InputError, match=r"the model has 10 classes, .*few\.npz has 2"):
        provenance.check_data(facts, datasets.load(str(tmp_path / "few.npz")))
    own = datasets.load(str(folder / "own.npz"))
    with pytest.raises(InputError, match=r"class 0 of the model is 'zero', that of .* is 'nine'"):
        provenance.check_data(facts, replace(own, classes=NAMES[::-1]))


def test_names_that_came_later_are_no_other_classes(folder: Path) -> None:
    """Numbers stand for classes without names, of the images or of the model."""
    facts = modelfile.read_header(folder / "run")["facts"]
    provenance.check_data(facts, datasets.load("digits"))
    provenance.check_data({**facts, "class_names": [*"0123456789"]}, datasets.load(str(folder / "own.npz")))


def test_other_images_under_a_known_name_are_noticed_and_their_folder_repeated(tmp_path: Path) -> None:
    """Fashion-MNIST has the files, shapes and labels of MNIST."""
    write_small_mnist(tmp_path / "fashion")
    noise = np.random.default_rng(0).integers(0, 256, (40, 28, 28), dtype=np.uint8)
    write_mnist(tmp_path / "fashion" / "mnist", "t10k", noise, np.arange(40, dtype=np.uint8) % 10)
    more = "--data", "mnist", "--data-dir", "fashion"
    trained = sparsecert("train", *more, "--keep", 45, "--out", "run", *QUICK, "--batch", 50, cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    assert "warning: mnist train: these are not the images of MNIST; check --data-dir" in trained.stderr
    following = shlex.split(trained.stdout.splitlines()[-1])
    assert following[2:] == ["certify", "run", *more, "--out", "run/certify.jsonl"]
    done = sparsecert(*following[2:], *FEW, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "warning: mnist test: these are not the images of MNIST" in done.stderr
    assert "the model was trained on" not in done.stderr
    shipped = sparsecert("certify", "mnist-k45", *more, *FEW, "--out", "shipped.jsonl", cwd=tmp_path)
    assert "warning: the model was trained on other images named mnist" in shipped.stderr


def test_the_images_of_a_known_name_are_not_doubted() -> None:
    for name in ("digits", "mnist-sample", "cifar10-sample"):
        assert provenance.other_images(datasets.load(name)) is None
    facts = modelfile.read_header("mnist-k45")["facts"]
    assert provenance.other_training(datasets.load("mnist-sample"), facts) is None
    fashion = provenance.other_training(datasets.load("digits"), facts)
    assert fashion == "the model was trained on mnist, not on digits; its answers may be poor here"


def test_small_grey_pictures_are_trained_on_as_they_are(tmp_path: Path) -> None:
    noise = np.random.default_rng(0)
    for split in ("train", "val"):
        for place in range(8):
            path = tmp_path / "own" / split / NAMES[place % 2] / f"{place}.png"
            write_image(path, noise.integers(0, 256, (28, 28), dtype=np.uint8))
    trained = sparsecert("train", "--data", "own", "--out", "run", *QUICK, cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    header = modelfile.read_header(tmp_path / "run")
    assert header["scheme"] == {"kind": "uniform", "units": 784, "keep": 45}
    assert (header["facts"]["shape"], header["architecture"]["name"]) == ([1, 28, 28], "mnist-cnn")
    assert sparsecert("data", "check", "own", cwd=tmp_path).stdout == "train: 8 files, 0 bad\ntest: 8 files, 0 bad\n"
    cropped = sparsecert("train", "--data", "own", "--resize", 8, "--out", "small", *QUICK, cwd=tmp_path)
    assert cropped.stdout.splitlines()[-1].endswith("--data own --resize 8 --out small/certify.jsonl"), cropped.stderr
    refused = sparsecert("certify", "small", "--data", "own", *FEW, cwd=tmp_path)
    assert "for an image folder add --resize 8" in refused.stderr
    done = sparsecert("certify", "small", "--data", "own", "--resize", 8, *FEW, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr
    trained_on = sparsecert(
        "predict", "small", "--data", "own", "--resize", 8, "--split", "train", "--limit", 2, "--n", 20, cwd=tmp_path
    )
    assert "warning: own train: these are the images that the model was trained on" in trained_on.stderr
    page = tmp_path / "page.html"
    assert sparsecert("report", "small/certify.jsonl", "--html", page, cwd=tmp_path).returncode == 0
    assert "data:image/png" in page.read_text()


def test_a_report_calls_a_function_only_if_the_user_names_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "called_images.py").write_text(
        f"from sparsecert import datasets\n"
        f"from pathlib import Path\n"
        f"class Pairs(list):\n"
        f"    classes = {NAMES!r}\n"
        f"def load(split):\n"
        f"    Path({str(tmp_path / 'called')!r}).touch()\n"
        f"    data = datasets.load({str(folder / 'own.npz')!r}, split)\n"
        f"    return Pairs((data.images.batch([i])[0], data.labels[i]) for i in range(len(data)))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    done = sparsecert("certify", folder / "run", "--data", "called_images:load", *FEW, "--out", tmp_path / "c.jsonl")
    assert (done.returncode, "warning" in done.stderr) == (0, False), done.stderr
    (tmp_path / "called").unlink()
    page = tmp_path / "page.html"
    assert sparsecert("report", tmp_path / "c.jsonl", "--html", page).returncode == 0
    assert not (tmp_path / "called").exists()
    assert "data:image/png" not in page.read_text()
    assert "seven" in page.read_text()
    more = "--html", page, "--data", "called_images:load"
    assert sparsecert("report", tmp_path / "c.jsonl", *more).returncode == 0
    assert "data:image/png" in page.read_text()


def test_data_list_says_where(tmp_path: Path) -> None:
    write_small_mnist(tmp_path)
    lines = sparsecert("data", "list", "--data-dir", tmp_path).stdout.splitlines()
    assert "digits          1,297 + 500 images, 1 x 8 x 8, 10 classes, in the package" in lines
    assert f"mnist           100 + 100 images, 1 x 28 x 28, 10 classes, in {tmp_path / 'mnist'}" in lines


@pytest.mark.parametrize("kind", ["pair", "folder"])
def test_training_images_are_not_proposed_as_test_images(kind: str, tmp_path: Path) -> None:
    digits = datasets.load("digits", "train")
    images = digits.images.batch(range(20))[:, 0]
    if kind == "pair":
        np.savez(tmp_path / "own.npz", images=images, labels=digits.labels[:20])
    for image, label in zip(images, digits.labels, strict=False):
        write_image(tmp_path / "own" / "train" / str(label) / f"{image.sum()}.png", image)
    name = "own.npz" if kind == "pair" else "own"
    assert not datasets.has_test_images(str(tmp_path / name))
    trained = sparsecert("train", "--data", name, "--out", "run", *QUICK, cwd=tmp_path)
    assert trained.stdout.splitlines()[-1].split()[4:6] == ["--data", "YOUR-TEST-IMAGES"], trained.stderr


def test_images_that_have_test_images_say_so(folder: Path) -> None:
    assert datasets.has_test_images("digits")
    assert datasets.has_test_images(str(folder / "own.npz"))


@pytest.mark.parametrize("line", ["raise ValueError('no disk')", "import", "return [1, 2, 3]", "return None[0]"])
def test_a_function_that_fails_is_one_line(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = f"failing_{abs(hash(line))}"
    (tmp_path / f"{module}.py").write_text(f"def load(split):\n    {line}\n")
    monkeypatch.syspath_prepend(tmp_path)
    done = sparsecert("train", "--data", f"{module}:load", "--out", tmp_path / "run")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert f"{module}:load" in done.stderr
