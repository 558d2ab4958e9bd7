"""Data of one's own, in every form that `load` takes: each is the same images as were written."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from sparsecert.datasets import ArrayImages, in_memory, load, splits_of
from sparsecert.datasets.arrays import channel_statistics, to_pixels
from sparsecert.datasets.folder import FolderImages
from sparsecert.datasets.views import RandomCrop
from sparsecert.errors import InputError

from .made import idx_bytes, write_image

NOISE = np.random.default_rng(3)
GREY = NOISE.integers(0, 256, (6, 5, 7), dtype=np.uint8)  # [n, h, w]
COLOUR = NOISE.integers(0, 256, (6, 5, 7, 3), dtype=np.uint8)  # [n, h, w, c]
LABELS = np.array([0, 2, 1, 1, 0, 2])
SHIRTS = ("shirt", "boot", "coat")


def pixels_of(data: Any) -> np.ndarray:
    return np.asarray(data.images.batch(range(len(data))))


@pytest.mark.parametrize(
    "names",
    [("images", "labels"), ("x", "y"), ("X", "y"), ("x_test", "y_test"), ("test_images", "test_labels"), ("data", "y")],
)
def test_an_npz_file_by_the_usual_names(tmp_path: Path, names: tuple[str, str]) -> None:
    np.savez(tmp_path / "mine.npz", **dict(zip(names, (COLOUR, LABELS), strict=True)))
    data = load(str(tmp_path / "mine.npz"))
    assert np.array_equal(pixels_of(data), COLOUR.transpose(0, 3, 1, 2))
    assert data.labels.tolist() == LABELS.tolist()
    assert (data.classes, data.name) == (("0", "1", "2"), str(tmp_path / "mine.npz"))
    assert in_memory(data.name)


def test_the_splits_and_class_names_of_an_npz_file(tmp_path: Path) -> None:
    path = str(tmp_path / "mine.npz")
    np.savez(
        path, x_train=GREY[:4], y_train=LABELS[:4], x_test=GREY[4:], y_test=LABELS[4:, None], classes=np.array(SHIRTS)
    )
    train, test = load(path, "train"), load(path, "test")
    assert np.array_equal(pixels_of(train)[:, 0], GREY[:4])
    assert np.array_equal(pixels_of(test)[:, 0], GREY[4:])
    assert train.classes == test.classes == SHIRTS
    assert train.mean == test.mean == pytest.approx((GREY[:4].mean() / 255,))
    assert test.std == pytest.approx((GREY[:4].std() / 255,))
    assert test.header_fields() == {"class_names": list(SHIRTS)}
    assert splits_of(path) == ("train", "test")
    np.savez(path, x_test=GREY, y_test=LABELS)
    assert splits_of(path) == ("test",)
    with pytest.raises(InputError, match="has no train images, only test"):
        load(path, "train")


def test_words_as_labels_are_numbered_in_order(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=GREY, labels=np.array(SHIRTS)[LABELS])
    data = load(str(tmp_path / "a.npz"))
    assert data.classes == ("boot", "coat", "shirt")
    assert [data.classes[label] for label in data.labels] == [SHIRTS[label] for label in LABELS]


def test_npy_files_beside_each_other(tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", GREY)
    np.save(tmp_path / "labels.npy", LABELS)
    (tmp_path / "classes.txt").write_text("\n".join(SHIRTS))
    for name in (tmp_path, tmp_path / "images.npy"):
        data = load(str(name))
        assert np.array_equal(pixels_of(data)[:, 0], GREY)
        assert data.classes == SHIRTS
    np.save(tmp_path / "X_val.npy", GREY[::-1])
    with pytest.raises(InputError, match=r"X_val\.npy needs its labels beside it, in y_val\.npy"):
        load(str(tmp_path / "X_val.npy"))
    np.save(tmp_path / "y_val.npy", LABELS)
    assert np.array_equal(pixels_of(load(str(tmp_path / "X_val.npy")))[:, 0], GREY[::-1])


def test_values_become_bytes_or_are_refused() -> None:
    one = GREY[:, None]
    for images in (GREY, GREY.astype(np.int64), GREY.astype(np.float32), GREY / 255, (GREY / 255).astype(np.float32)):
        assert np.array_equal(to_pixels(images, "mine"), one)
    assert np.array_equal(to_pixels(GREY > 99, "mine"), np.where(one > 99, 255, 0))
    assert np.array_equal(to_pixels(COLOUR, "mine"), to_pixels(COLOUR.transpose(0, 3, 1, 2), "mine"))
    for wrong in (GREY / 255 - 0.5, GREY.astype(int) + 1, np.full((1, 2, 2), np.nan), GREY.astype(str)):
        with pytest.raises(InputError, match="mine must hold"):
            to_pixels(wrong, "mine")
    for shape in ((6, 35), (6, 5, 7, 9), (0, 5, 7)):
        with pytest.raises(InputError, match="reshape them"):
            to_pixels(np.zeros(shape, np.uint8), "mine")


def test_statistics_are_those_of_each_channel() -> None:
    pixels = to_pixels(COLOUR, "mine")
    mean, std = channel_statistics(pixels)
    assert mean == pytest.approx(tuple((pixels / 255).mean(axis=(0, 2, 3))))
    assert std == pytest.approx(tuple((pixels / 255).std(axis=(0, 2, 3))))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": GREY}, "must hold arrays named images and labels.*it holds a$"),
        ({"images": GREY, "labels": LABELS[:2]}, "one label per image, got 2 for 6"),
        ({"images": GREY, "labels": LABELS * 0.5}, "whole numbers or words"),
        ({"images": GREY, "labels": LABELS * 10**6}, "number the classes"),
        ({"images": GREY, "labels": LABELS - 1}, "labels must be between 0 and 1"),
        ({"images": GREY, "labels": LABELS.astype(object)}, "cannot be read as arrays"),
        ({"images": GREY, "labels": LABELS, "classes": np.array(["a"])}, "labels must be between 0 and 0"),
    ],
)
def test_what_is_wrong_with_arrays_is_said(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(InputError, match=message):
        load(str(tmp_path / "a.npz"))


@pytest.mark.parametrize(
    ("there", "split", "remedy"), [("test", "train", "add them$"), ("train", "test", "--split train$")]
)
def test_a_split_that_is_not_there_is_named(tmp_path: Path, there: str, split: str, remedy: str) -> None:
    """`train` has no --split."""
    np.savez(tmp_path / "a.npz", **{f"x_{there}": GREY, f"y_{there}": LABELS})
    with pytest.raises(InputError, match=f"has no {split} images, only {there}; .*{remedy}"):
        load(str(tmp_path / "a.npz"), split)


def test_files_that_are_no_arrays_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(b"PK nothing")
    with pytest.raises(InputError, match="cannot be read as arrays"):
        load(str(tmp_path / "a.npz"))
    with pytest.raises(InputError, match=r"none\.npz was not found"):
        load(str(tmp_path / "none.npz"))


@pytest.mark.parametrize("name", ["{}-images-idx3-ubyte", "raw/{}-images-idx3-ubyte.gz", "emnist-{}-images.idx3-ubyte"])
def test_a_folder_of_idx_files_of_any_set(tmp_path: Path, name: str) -> None:
    for word, part in (("train", slice(0, 4)), ("t10k", slice(4, 6))):
        for file, array in ((name, GREY[part]), (name.replace("images", "labels").replace("3", "1"), LABELS[part])):
            path = tmp_path / file.format(word)
            path.parent.mkdir(exist_ok=True)
            content = idx_bytes(array.astype(np.uint8))
            path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    (path.parent / "classes.txt").write_text("\n".join(SHIRTS))
    test = load(str(tmp_path))
    assert np.array_equal(pixels_of(test)[:, 0], GREY[4:])
    assert (test.labels.tolist(), test.classes) == (LABELS[4:].tolist(), SHIRTS)
    assert np.array_equal(pixels_of(load(str(tmp_path), "train"))[:, 0], GREY[:4])


def test_idx_folders_that_cannot_be_understood(tmp_path: Path) -> None:
    for word in ("a-test", "b-test"):
        (tmp_path / f"{word}-images-idx3-ubyte").write_bytes(idx_bytes(GREY))
    with pytest.raises(InputError, match="holds several sets"):
        load(str(tmp_path))
    (tmp_path / "b-test-images-idx3-ubyte").unlink()
    with pytest.raises(InputError, match="needs its labels beside it, in a-test-labels-idx1-ubyte"):
        load(str(tmp_path))


def write_folder(root: Path, images: np.ndarray) -> None:
    for split, part in (("train", range(4)), ("val", range(4, 6))):
        for place in part:
            write_image(root / split / SHIRTS[place % 2] / f"{place}.png", images[place])


@pytest.mark.parametrize("images", [GREY, COLOUR, GREY[:, :5, :5]], ids=["grey", "colour", "square"])
def test_small_images_of_a_folder_keep_their_size_and_channels(tmp_path: Path, images: np.ndarray) -> None:
    write_folder(tmp_path, images)
    data = load(str(tmp_path))
    assert isinstance(data.images, ArrayImages)
    assert data.classes == ("boot", "shirt")
    assert np.array_equal(pixels_of(data), to_pixels(images[[5, 4]], "mine"))
    assert (len(data.mean), data.notes, in_memory(str(tmp_path))) == (data.shape[0], (), False)


def test_large_images_of_one_size_stay_files(tmp_path: Path) -> None:
    grey = NOISE.integers(0, 256, (6, 90, 120), dtype=np.uint8)
    write_folder(tmp_path, grey)
    data = load(str(tmp_path))
    assert isinstance(data.images, FolderImages)
    assert data.shape == (1, 90, 120)
    assert np.array_equal(pixels_of(data)[:, 0], grey[[5, 4]])
    assert data.images.load_views([0, 1], RandomCrop(0, 0)).shape == (2, 1, 90, 120)


def test_one_image_of_another_size_in_either_split_crops_all(tmp_path: Path) -> None:
    write_folder(tmp_path, GREY)
    write_image(tmp_path / "train" / "boot" / "z.png", GREY[0, :, :5])
    data = load(str(tmp_path))
    assert data.shape == (1, 224, 224)
    assert data.notes == (
        f"images of {tmp_path} differ in size: resized and cropped to 224 x 224; --resize asks for another size",
    )
    small = load(str(tmp_path), size=4)
    assert (small.shape, small.notes, small.header_fields()["resized"]) == ((1, 4, 4), (), 4)
    write_image(tmp_path / "train" / "boot" / "y.png", COLOUR[0])
    assert load(str(tmp_path)).shape == (3, 224, 224)
    with pytest.raises(InputError, match="--resize is for image folders"):
        load("digits", size=4)


def test_a_bad_file_says_nothing_of_the_size(tmp_path: Path) -> None:
    write_folder(tmp_path, GREY)
    (tmp_path / "val" / "boot" / "bad.png").write_bytes(b"none")
    with pytest.raises(InputError, match=r"bad\.png cannot be decoded"):
        load(str(tmp_path))
    data = load(str(tmp_path), skip_bad=True)
    assert (data.shape, data.skipped) == ((1, 5, 7), ("boot/bad.png",))


MODULE = """
import numpy as np
import torch

class Mine(torch.utils.data.Dataset):
    classes = ["shirt", "boot", "coat"]

    def __init__(self, part):
        self.part = part

    def __len__(self):
        return len(self.part)

    def __getitem__(self, place):
        return torch.full((1, 2, 3), self.part[place] / 255), self.part[place] % 3

def both(split):
    return Mine([0, 1, 2] if split == "train" else [5, 4])

def one():
    return [(np.full((2, 3), 7, np.uint8), "boot")]

def wrong():
    return 3
"""


def test_a_function_that_returns_a_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "owned_images.py").write_text(MODULE)
    with pytest.raises(
        InputError, match=r"there is no module owned_images; add the folder it is in to the path: PYTHON"
    ):
        load("owned_images:both")
    monkeypatch.syspath_prepend(tmp_path)
    data = load("owned_images:both")
    assert pixels_of(data)[:, 0, 1, 2].tolist() == [5, 4]
    assert (data.shape, data.classes, data.labels.tolist()) == ((1, 2, 3), SHIRTS, [2, 1])
    assert len(load("owned_images:both", "train")) == 3
    assert load("owned_images:one", "train").classes == ("boot",)
    with pytest.raises(InputError, match="must return a data set with a length"):
        load("owned_images:wrong")
    with pytest.raises(InputError, match="has no function none"):
        load("owned_images:none")


def test_a_saved_hugging_face_data_set(tmp_path: Path) -> None:
    """Written as `DatasetDict.save_to_disk` does: an Arrow stream, its state and the features of its columns."""
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    (tmp_path / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    for split, part in (("train", range(4)), ("test", range(4, 6))):
        cells = []
        for place in part:
            file = io.BytesIO()
            Image.fromarray(GREY[place]).save(file, "PNG")
            cells.append({"bytes": file.getvalue(), "path": None})
        table = pa.table({"image": cells, "label": LABELS[list(part)]})
        folder = tmp_path / split
        folder.mkdir()
        with (
            pa.OSFile(str(folder / "data-00000-of-00001.arrow"), "wb") as sink,
            pa.ipc.new_stream(sink, table.schema) as out,
        ):
            out.write_table(table)
        (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))
        features = {"image": {"_type": "Image"}, "label": {"names": SHIRTS, "_type": "ClassLabel"}}
        (folder / "dataset_info.json").write_text(json.dumps({"features": features}))
    test = load(str(tmp_path))
    assert np.array_equal(pixels_of(test)[:, 0], GREY[4:])
    assert (test.labels.tolist(), test.classes) == (LABELS[4:].tolist(), SHIRTS)
    assert len(load(str(tmp_path / "train"), "test")) == 4  # one split alone serves as either
    (tmp_path / "test" / "dataset_info.json").write_text(json.dumps({"features": {"text": {"_type": "Value"}}}))
    with pytest.raises(InputError, match=r"needs a column of Image and one of ClassLabel; it has text \(Value\)"):
        load(str(tmp_path))
