from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sparsecert.datasets import bad_files, folder, load
from sparsecert.datasets.folder import FolderImages
from sparsecert.errors import InputError

from .made import cmyk_jpeg, write_image

BAD = {
    "cat/empty.jpg": "cannot be decoded as an image",
    "cat/text.png": "cannot be decoded as an image",
    "dog/cut.jpg": "cannot be decoded as an image",
    "dog/deep.png": "has more than 8 bits per channel",
    "dog/strip.png": "is too elongated to resize",
}


@pytest.fixture
def mixed(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three good and five bad training images, besides a grey one and one of four inks; two good test images."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    train = photos / "train"
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    whole = io.BytesIO()
    Image.fromarray(noise).save(whole, "JPEG")
    (train / "cat/empty.jpg").write_bytes(b"")
    (train / "cat/text.png").write_text("no image")
    (train / "dog/cut.jpg").write_bytes(whole.getvalue()[: len(whole.getvalue()) // 2])
    Image.fromarray(np.full((64, 64), 40_000, dtype=np.uint16)).save(train / "dog/deep.png")
    write_image(train / "dog/strip.png", np.zeros((1, 200, 3), dtype=np.uint8))
    write_image(train / "dog/grey.jpg", noise, "L")
    (train / "dog/inks.jpg").write_bytes(cmyk_jpeg((10, 20, 30, 200), adobe=True))
    return photos


def folder_images(root: Path, split: str = "train") -> FolderImages:
    images = load(str(root), split).images
    assert isinstance(images, FolderImages)
    return images


@pytest.mark.parametrize("workers", [0, 2])
def test_bad_files_are_found_with_their_reasons(mixed: Path, monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    monkeypatch.setattr(bad_files, "FILES_PER_CALL", 3)
    reported: list[tuple[int, int]] = []
    found = bad_files.find_bad_files(folder_images(mixed), workers, lambda done, files: reported.append((done, files)))
    assert list(found) == list(BAD)
    assert all(reason in found[file] for file, reason in BAD.items())
    assert reported == [(3, 10), (6, 10), (9, 10), (10, 10)]
    assert bad_files.find_bad_files(folder_images(mixed, "test"), workers) == {}


def test_a_file_that_cannot_be_read_is_not_a_bad_one(mixed: Path) -> None:
    images = folder_images(mixed)
    (mixed / "train/dog/c.png").unlink()
    with pytest.raises(InputError, match=r"c\.png cannot be read \(No such file"):
        bad_files.find_bad_files(images, 1)


def test_skipping_gives_the_set_without_the_bad_files(mixed: Path) -> None:
    whole, left = load(str(mixed), "train"), load(str(mixed), "train", skip_bad=True)
    assert (len(whole), len(left), left.skipped) == (10, 5, tuple(BAD))
    assert bad_files.describe_skipped(left) == (
        "skipped 5 of 10 images that cannot be decoded: cat/empty.jpg, cat/text.png, dog/cut.jpg, ..."
    )
    assert left.labels.tolist() == [0, 0, 1, 1, 1]
    pixels, fingerprint = left.images.batch(range(5)), left.fingerprint()
    assert fingerprint != whole.fingerprint()
    for file in BAD:
        (mixed / "train" / file).unlink()
    cleaned = load(str(mixed), "train")
    assert cleaned.skipped == ()
    assert cleaned.labels.tolist() == left.labels.tolist()
    assert np.array_equal(cleaned.images.batch(range(5)), pixels)
    assert cleaned.fingerprint() == fingerprint
    assert load(str(mixed), "train", skip_bad=True).fingerprint() == fingerprint


def test_what_was_found_is_remembered_until_a_file_changes(mixed: Path) -> None:
    reported: list[int] = []

    def skipped() -> tuple[str, ...]:
        return load(str(mixed), "train", skip_bad=True, on_progress=lambda done, files: reported.append(done)).skipped

    assert skipped() == skipped() == tuple(BAD)
    assert reported == [10]
    write_image(mixed / "train/cat/text.png", np.zeros((30, 30, 3), dtype=np.uint8))
    assert skipped() == tuple(file for file in BAD if file != "cat/text.png")
    assert reported == [10, 10]


def test_skipping_works_where_nothing_can_be_remembered(mixed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (mixed / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(mixed / "file"))
    assert load(str(mixed), "train", skip_bad=True).skipped == tuple(BAD)


def test_skipping_works_for_a_user_without_a_home(mixed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a container's arbitrary user number, which no list of users knows."""
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    with pytest.raises(RuntimeError):
        Path.home()
    assert load(str(mixed), "train", skip_bad=True).skipped == tuple(BAD)


def test_a_file_that_is_replaced_while_it_is_looked_at_is_looked_at_again(mixed: Path) -> None:
    def replaced(done: int, files: int) -> None:
        write_image(mixed / "train/cat/text.png", np.zeros((30, 30, 3), dtype=np.uint8))

    assert "cat/text.png" in load(str(mixed), "train", skip_bad=True, on_progress=replaced).skipped
    assert "cat/text.png" not in load(str(mixed), "train", skip_bad=True).skipped


def test_a_class_without_any_good_image_is_refused(mixed: Path) -> None:
    for name in ("a.PNG", "b.png"):
        (mixed / "train/cat" / name).write_text("no image")
    with pytest.raises(InputError, match=r"no image of class cat in .*train can be decoded; the first, cat/a\.PNG, "):
        load(str(mixed), "train", skip_bad=True)


def test_sets_in_memory_have_nothing_to_skip() -> None:
    data = load("digits", "test", skip_bad=True)
    assert (len(data), data.skipped) == (500, ())


def test_another_image_size_is_kept(mixed: Path) -> None:
    data = bad_files.drop_bad_files(folder.load(mixed, "train", size=32))
    assert data.images.batch([0]).shape == (1, 3, 32, 32)
