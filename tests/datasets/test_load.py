from __future__ import annotations

from pathlib import Path

import pytest

from sparsecert.datasets import DATASETS, data_folder, load, load_training, shipped_like, splits_of
from sparsecert.errors import InputError
from tests.helpers import modules_after


def test_names() -> None:
    assert {*DATASETS} == {"digits", "mnist-sample", "mnist", "cifar10-sample", "cifar10", "imagenette", "imagenet"}


@pytest.mark.parametrize("name", ["mnist", "cifar10", "imagenette"])
def test_missing_data_names_the_command(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError) as caught:
        load(name, data_dir=tmp_path)
    assert str(caught.value) == (
        f"{name} was not found in {tmp_path}; run `sparsecert data get {name} --data-dir {tmp_path}` "
        "or point --data-dir or SPARSECERT_DATA at it"
    )


def test_missing_imagenet_names_the_layout(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"licence forbids a download.*imagenet/\{train,val\}/<class folder>"):
        load("imagenet", data_dir=tmp_path)


def test_imagenet_is_read_below_the_data_folder(photos: Path) -> None:
    photos.rename(photos.parent / "imagenet")
    data = load("imagenet", "test", photos.parent)
    assert (data.name, len(data)) == ("imagenet", 2)


@pytest.mark.parametrize("name", DATASETS)
def test_bad_split_is_refused_when_the_data_are_there_or_not(photos: Path, name: str) -> None:
    for folder in ("imagenet", "imagenette"):
        (photos.parent / folder).mkdir()
    with pytest.raises(InputError, match="split must be one of train, test, got 'val'"):
        load(name, "val", photos.parent)


def test_unknown_names_and_paths_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"data set must be one of cifar10, cifar10-sample, .*got 'mnits'"):
        load("mnits")
    with pytest.raises(InputError, match="no/such is not a folder"):
        load("no/such")


def test_a_folder_here_needs_no_slash_but_never_hides_a_name(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(photos.parent)
    (photos.parent / "digits").mkdir()
    assert len(load("photos", "train")) == 3
    assert len(load("digits", "test")) == 500


def test_data_folder_is_argument_then_variable_then_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARSECERT_DATA", str(tmp_path))
    assert data_folder("given") == Path("given")
    assert data_folder() == tmp_path
    monkeypatch.setenv("SPARSECERT_DATA", "")
    assert data_folder() == Path("data")
    monkeypatch.delenv("SPARSECERT_DATA")
    assert data_folder(None) == Path("data")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="mnist was not found in data; run"):
        load("mnist")


def test_splits_are_those_that_are_there(photos: Path) -> None:
    assert splits_of("digits") == splits_of(str(photos)) == ("train", "test")
    assert splits_of("mnist-sample") == ("test",)
    (photos / "train").rename(photos / "elsewhere")
    assert splits_of(str(photos)) == ("test",)
    with pytest.raises(InputError, match="no/such is not a folder"):
        splits_of("no/such")


def test_nothing_here_imports_torch() -> None:
    program = (
        "import sparsecert.datasets as d; assert 'PIL' not in sys.modules, 'PIL'; "
        "from sparsecert.datasets import bad_files, cifar10, digits, download, folder, mnist, stream; "
        "d.load('digits')"
    )
    assert "torch" not in modules_after(program)


def test_a_sample_shares_the_training_images_of_its_data_set(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"mnist was not found in {tmp_path}"):
        load_training("mnist-sample", tmp_path)
    assert load_training("digits").fingerprint() == load("digits", "train").fingerprint()


def test_what_ships_in_place_of_a_data_set() -> None:
    names = "mnist", "mnist-sample", "digits", "cifar10", "photographs"
    assert [shipped_like(name) for name in names] == ["mnist-sample", "mnist-sample", "digits", "cifar10-sample", None]
