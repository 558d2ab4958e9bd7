from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from PIL import ExifTags, Image

from sparsecert.datasets import folder, load
from sparsecert.datasets.folder import FolderImages
from sparsecert.datasets.image_file import BadImage, open_rgb
from sparsecert.datasets.views import RandomCrop
from sparsecert.errors import InputError

from .made import cmyk_jpeg, write_image


def images(data: object) -> FolderImages:
    assert isinstance(data, FolderImages)
    return data


def constant(height: int, width: int, colour: tuple[int, ...] = (200, 100, 50)) -> np.ndarray:
    return np.broadcast_to(np.array(colour, dtype=np.uint8), (height, width, len(colour))).copy()


def one_image(path: Path) -> FolderImages:
    return FolderImages(path.parent, (path.name,))


def test_layout_gives_sorted_classes_and_files(photos: Path) -> None:
    (photos / "train" / ".hidden").mkdir()
    (photos / "train" / "cat" / "notes.txt").write_text("not an image")
    train, test = load(str(photos), "train"), load(str(photos), "test")
    assert train.classes == test.classes == ("cat", "dog")
    assert images(train.images).files == ("cat/a.PNG", "cat/b.png", "dog/c.png")
    assert train.labels.tolist() == [0, 0, 1]
    assert test.labels.tolist() == [0, 1]
    assert (train.name, train.mean, train.std) == (str(photos), folder.MEAN, folder.STD)


def test_what_lies_beside_the_images_is_named(photos: Path) -> None:
    assert load(str(photos), "train").non_images == ()
    for name in ("dog/z.txt", "dog/deeper/d.png", "cat/notes.txt", "cat/.hidden", ".hidden", "loose.png"):
        (photos / "train" / name).parent.mkdir(exist_ok=True)
        (photos / "train" / name).write_bytes(b"")
    train = load(str(photos), "train")
    assert train.non_images == ("loose.png", "cat/notes.txt", "dog/deeper", "dog/z.txt")
    assert images(train.images).files == ("cat/a.PNG", "cat/b.png", "dog/c.png")
    line = folder.describe_non_images(train)
    assert line.startswith(f"skipped 4 entries of {photos} train, such as loose.png: images must be in a")
    assert line.endswith("and end in .jpeg, .jpg, .png, .bmp, .ppm, .webp, .tif or .tiff")
    assert load(str(photos), "test").non_images == ()


def test_test_folder_is_a_synonym_and_train_may_be_missing(photos: Path) -> None:
    before = load(str(photos), "test").fingerprint()
    (photos / "val").rename(photos / "test")
    (photos / "train").rename(photos / "elsewhere")
    after = load(str(photos), "test")
    assert after.classes == ("cat", "dog")
    assert after.fingerprint() == before


def test_labels_follow_the_training_classes_when_val_lacks_one(photos: Path) -> None:
    (photos / "val" / "cat" / "d.png").unlink()
    (photos / "val" / "cat").rmdir()
    assert load(str(photos), "test").labels.tolist() == [1]


def test_exact_size_is_taken_as_it_is(photos: Path) -> None:
    with Image.open(photos / "train/dog/c.png") as image:
        expected = np.asarray(image).transpose(2, 0, 1)
    assert np.array_equal(load(str(photos), "train").images.batch([2])[0], expected)


def test_resize_then_centre_crop(tmp_path: Path) -> None:
    # 512 x 1024 is halved exactly to 256 x 512; the crop is then columns 144..367 and rows 16..239 of the half.
    rows, columns = np.mgrid[0:512, 0:1024]
    ramp = np.stack([columns // 4, rows // 2, 0 * rows], axis=-1).astype(np.uint8)
    write_image(tmp_path / "ramp.png", ramp)
    got = one_image(tmp_path / "ramp.png").batch([0])[0].astype(int)
    assert got.shape == (3, 224, 224)
    assert np.abs(got[0] - (np.arange(144, 368) * 2 + 0.5) / 4).max() <= 1.5
    assert np.abs(got[1] - (np.arange(16, 240) * 2 + 0.5)[:, None] / 2).max() <= 1.5
    assert not got[2].any()


def test_antialias_averages_a_fine_pattern(tmp_path: Path) -> None:
    stripes = np.zeros((1024, 1024, 3), dtype=np.uint8)
    stripes[:, ::2] = 254
    write_image(tmp_path / "stripes.png", stripes)
    got = one_image(tmp_path / "stripes.png").batch([0])[0].astype(int)
    assert np.abs(got - 127).max() <= 2


@pytest.mark.parametrize("shape", [(10, 10), (1, 90), (90, 1), (255, 257), (500, 301)])
def test_every_shape_fills_the_square(tmp_path: Path, shape: tuple[int, int]) -> None:
    write_image(tmp_path / "x.png", constant(*shape))
    source = one_image(tmp_path / "x.png")
    for batch in (source.batch([0]), source.load_views([0], RandomCrop(0, 0))):
        assert np.array_equal(batch[0], constant(224, 224).transpose(2, 0, 1))


def test_another_size(photos: Path) -> None:
    data = folder.load(photos, "test", size=32)
    assert data.images.shape == (3, 32, 32)
    assert data.images.batch([1, 0]).shape == (2, 3, 32, 32)
    assert data.fingerprint() != load(str(photos), "test").fingerprint()
    with pytest.raises(InputError, match="size must be at least 1, got 0"):
        folder.load(photos, "test", size=0)


@pytest.mark.parametrize(
    ("mode", "name", "expected"),
    [("L", "x.png", (124, 124, 124)), ("CMYK", "x.jpg", (200, 100, 50)), ("RGBA", "x.png", (200, 100, 50))],
)
def test_other_modes_become_rgb(tmp_path: Path, mode: str, name: str, expected: tuple[int, ...]) -> None:
    write_image(tmp_path / name, constant(224, 224), mode)
    got = one_image(tmp_path / name).batch([0])[0].astype(int)
    assert np.abs(got - np.array(expected)[:, None, None]).max() <= 4


@pytest.mark.parametrize("adobe", [True, False])
@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ((255, 255, 255, 255), (255, 255, 255)),  # no ink
        ((0, 255, 255, 255), (0, 255, 255)),  # cyan alone
        ((200, 100, 50, 255), (200, 100, 50)),
        ((255, 255, 255, 128), (128, 128, 128)),  # half of the black
        ((200, 100, 50, 102), (80, 40, 20)),  # 102 / 255 = 0.4 of the light that the colours leave
        ((255, 255, 255, 0), (0, 0, 0)),
    ],
)
def test_cmyk_is_stored_as_the_complement_of_its_inks(
    tmp_path: Path, adobe: bool, stored: tuple[int, int, int, int], expected: tuple[int, ...]
) -> None:
    (tmp_path / "inks.jpg").write_bytes(cmyk_jpeg(stored, adobe))
    with Image.open(tmp_path / "inks.jpg") as image:
        assert (image.mode, image.size, "adobe" in image.info) == ("CMYK", (8, 8), adobe)
        as_pillow = np.asarray(image.convert("RGB")).transpose(2, 0, 1)
    got = FolderImages(tmp_path, ("inks.jpg",), size=8).batch([0])[0]
    assert np.abs(got.astype(int) - np.array(expected)[:, None, None]).max() <= 1
    assert np.array_equal(got, as_pillow)


def test_grey_becomes_three_equal_channels(tmp_path: Path) -> None:
    ramp = np.tile(np.arange(0, 256, 4, dtype=np.uint8), (64, 1))
    Image.fromarray(ramp).save(tmp_path / "grey.jpg", quality=100)
    got = FolderImages(tmp_path, ("grey.jpg",), size=64).batch([0])[0]
    assert np.array_equal(got[0], got[1])
    assert np.array_equal(got[0], got[2])
    assert np.abs(got[0].astype(int) - ramp).max() <= 3


def test_sixteen_bit_images_are_refused(tmp_path: Path) -> None:
    Image.fromarray(np.full((224, 224), 40_000, dtype=np.uint16)).save(tmp_path / "deep.png")
    with pytest.raises(InputError, match=r"deep\.png has more than 8 bits per channel"):
        one_image(tmp_path / "deep.png").batch([0])


@pytest.mark.parametrize("name", ["x.jpg", "x.png", "x.bmp"])
@pytest.mark.parametrize("fraction", [0.0, 0.01, 0.5, 0.9])
def test_truncated_files_are_refused(tmp_path: Path, name: str, fraction: float) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (224, 224, 3), dtype=np.uint8)
    write_image(tmp_path / name, noise)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content[: int(len(content) * fraction)])
    with pytest.raises(InputError, match=r"x\.\w+ cannot be decoded as an image .*; replace or remove it") as caught:
        one_image(tmp_path / name).batch([0])
    assert "\n" not in str(caught.value)


def test_text_and_vanished_files_are_refused(photos: Path) -> None:
    data = load(str(photos), "test")
    (photos / "val/cat/d.png").write_text("hello")
    (photos / "val/dog/e.png").unlink()
    with pytest.raises(BadImage, match=r"d\.png cannot be decoded as an image"):
        data.images.batch([0])
    with pytest.raises(InputError, match=r"e\.png cannot be read \(No such file or directory\)") as caught:
        data.images.batch([1])
    assert not isinstance(caught.value, BadImage)
    with pytest.raises(InputError, match=r"e\.png cannot be read"):
        data.fingerprint()


@pytest.mark.parametrize("limit", [100 * 100 - 1, 100 * 100 // 2 - 1])
@pytest.mark.parametrize("filters", ["error", "ignore"])
def test_decompression_bombs_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, filters: Literal["error", "ignore"]
) -> None:
    write_image(tmp_path / "bomb.png", constant(100, 100))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    with warnings.catch_warnings():
        warnings.simplefilter(filters)
        with pytest.raises(InputError, match=r"bomb\.png is too large to decode safely"):
            one_image(tmp_path / "bomb.png").batch([0])


@pytest.mark.parametrize(
    ("raised", "bad"),
    [
        (RuntimeError("Missing or empty image item"), True),  # of Pillow's AVIF
        (NotImplementedError("Unknown pixel format flags 0"), True),  # of its DDS
        (OSError(errno.EINVAL, "Invalid argument"), True),  # a damaged offset
        (OSError(errno.EIO, "Input/output error"), False),
        (MemoryError(), False),
    ],
)
def test_whatever_a_decoder_raises_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: Exception, bad: bool
) -> None:
    """Except for want of memory, which is no fault of the file's."""

    def fail(*_: object) -> None:
        raise raised

    write_image(tmp_path / "odd.png", constant(8, 8))
    monkeypatch.setattr(Image.Image, "convert", fail)
    with pytest.raises(MemoryError if isinstance(raised, MemoryError) else InputError) as caught:
        open_rgb(tmp_path / "odd.png")
    assert isinstance(caught.value, BadImage) == bad
    assert "odd.png" in str(caught.value) or isinstance(raised, MemoryError)


@pytest.mark.parametrize(
    ("kind", "read"), [("PNG", True), ("GIF", True), ("BMP", True), ("DDS", False), ("EPS", False)]
)
def test_what_a_file_holds_decides_how_it_is_read(tmp_path: Path, kind: str, read: bool) -> None:
    """Whatever its name; kinds that are no photographs are refused, an EPS among them, which runs another program."""
    Image.fromarray(constant(8, 8)).save(tmp_path / "odd", kind)
    path = (tmp_path / "odd").rename(tmp_path / "odd.jpg")
    if read:
        assert open_rgb(path).size == (8, 8)
        return
    with pytest.raises(BadImage, match=r"odd\.jpg cannot be decoded as an image"):
        open_rgb(path)


def test_a_turned_photograph_is_taken_as_it_is_stored(tmp_path: Path) -> None:
    turned = Image.Exif()
    turned[ExifTags.Base.Orientation] = 6
    Image.fromarray(constant(8, 16)).save(tmp_path / "turned.jpeg", exif=turned)
    assert open_rgb(tmp_path / "turned.jpeg").size == (16, 8)


@pytest.mark.parametrize("kind", ["folder", "pipe", "dangling link"])
def test_what_is_no_file_is_refused_when_the_folder_is_loaded(photos: Path, kind: str) -> None:
    """Before somebody waits for ever for what comes out of a pipe."""
    path = photos / "val" / "cat" / "odd.jpg"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(photos / "nowhere.jpg")
    with pytest.raises(InputError, match=r"val/cat/odd\.jpg is neither a file nor a link to one; remove or"):
        load(str(photos), "test")


def test_links_to_files_and_folders_are_followed(photos: Path) -> None:
    before = load(str(photos), "test")
    (photos / "val" / "cat" / "z.JPG").symlink_to(photos / "val" / "cat" / "d.png")
    (photos / "val" / "dog").rename(photos / "elsewhere")
    (photos / "val" / "dog").symlink_to(photos / "elsewhere")
    after = load(str(photos), "test")
    assert len(after) == len(before) + 1
    assert after.classes == before.classes


def test_strips_are_refused(tmp_path: Path) -> None:
    write_image(tmp_path / "strip.png", constant(1, 101))
    with pytest.raises(InputError, match=r"strip\.png is too elongated to resize \(101 x 1 pixels\)"):
        one_image(tmp_path / "strip.png").batch([0])


def test_random_crops_do_not_depend_on_the_batch(photos: Path) -> None:
    source = images(load(str(photos), "train").images)
    whole = source.load_views([0, 1, 2], RandomCrop(seed=5, epoch=1))
    assert whole.shape == (3, 3, 224, 224)
    assert np.array_equal(source.load_views([2, 0, 2], RandomCrop(5, 1)), whole[[2, 0, 2]])
    for index in range(3):
        assert np.array_equal(source.load_views([index], RandomCrop(5, 1))[0], whole[index])
        assert not np.array_equal(source.load_views([index], RandomCrop(5, 2))[0], whole[index])
        assert not np.array_equal(source.load_views([index], RandomCrop(6, 1))[0], whole[index])


def test_random_crops_flip_left_to_right(tmp_path: Path) -> None:
    rows, columns = np.mgrid[0:250, 0:250]
    write_image(tmp_path / "ramp.png", np.stack([columns, rows, rows], axis=-1).astype(np.uint8))
    source = one_image(tmp_path / "ramp.png")
    crops = [source.load_views([0], RandomCrop(0, epoch))[0].astype(int) for epoch in range(20)]
    assert all(crop[1, -1, 0] > crop[1, 0, 0] for crop in crops)
    mirrored = sum(bool(crop[0, 0, -1] < crop[0, 0, 0]) for crop in crops)
    assert 3 <= mirrored <= 17


def test_order_is_kept_by_the_pool(tmp_path: Path) -> None:
    # Large and small files alternate, so that later ones finish first.
    for i in range(12):
        side = 600 if i % 2 == 0 else 8
        write_image(tmp_path / f"{i:02}.png", constant(side, side, (i, i, i)))
    source = FolderImages(tmp_path, tuple(f"{i:02}.png" for i in range(12)))
    assert source.batch(range(12))[:, 0, 0, 0].tolist() == list(range(12))


def test_fingerprint_sees_names_and_contents(photos: Path) -> None:
    before = load(str(photos), "train").fingerprint()
    assert load(str(photos), "train").fingerprint() == before
    (photos / "train/cat/b.png").rename(photos / "train/cat/bb.png")
    renamed = load(str(photos), "train").fingerprint()
    contents = bytearray((photos / "train/cat/bb.png").read_bytes())
    contents[-20] ^= 1  # the size stays
    (photos / "train/cat/bb.png").write_bytes(contents)
    assert len({before, renamed, load(str(photos), "train").fingerprint()}) == 3


def test_fingerprint_of_a_large_set_sees_every_name_and_length_and_the_bytes_of_some(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "MAX_HASHED", 2)  # of three: those at floor(3 i / 2), the first and the second
    monkeypatch.setattr(folder, "FILES_PER_TASK", 2)
    files = [photos / "train" / name for name in ("cat/a.PNG", "cat/b.png", "dog/c.png")]

    def fingerprint() -> str:
        return load(str(photos), "train").fingerprint()

    before = fingerprint()
    for number, file in enumerate(files):
        contents = file.read_bytes()
        file.write_bytes(contents[:-1] + bytes((contents[-1] ^ 1,)))
        assert (fingerprint() == before) == (number == 2)
        file.write_bytes(contents + b"\0")
        assert fingerprint() != before
        file.write_bytes(contents)
        assert fingerprint() == before
    files[2].rename(files[2].with_name("d.png"))
    assert fingerprint() != before


def test_faulty_layouts_are_refused(photos: Path) -> None:
    (photos / "val" / "bird").mkdir()
    with pytest.raises(InputError, match=r"val/bird is a class that .*train lacks"):
        load(str(photos), "test")
    (photos / "train" / "bird").mkdir()
    with pytest.raises(InputError, match="train/bird holds no images"):
        load(str(photos), "train")
    with pytest.raises(InputError, match="val/bird holds no images"):
        load(str(photos), "test")


def test_missing_split_and_missing_classes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    with pytest.raises(InputError, match=r"split 'test' needs the folder .*val or .*test, which is missing"):
        load(str(tmp_path), "test")
    with pytest.raises(InputError, match="train has no class folders"):
        load(str(tmp_path), "train")


def test_real_imagenette(real_data: Callable[[str], Path]) -> None:
    root = real_data("imagenette")
    data = load("imagenette", "test", root)
    assert len(data.classes) == 10
    assert set(data.labels.tolist()) == set(range(10))
    chosen = data.spaced_indices(24)
    batch = data.images.batch(chosen)
    assert batch.shape == (24, 3, 224, 224)
    # Photographs: the channel means over a few dozen are near the usual constants.
    assert np.abs(batch.mean(axis=(0, 2, 3)) / 255 - folder.MEAN).max() < 0.1
    assert batch.std(axis=(1, 2, 3)).min() > 5
    crops = images(data.images).load_views(chosen, RandomCrop(0, 0))
    assert np.array_equal(crops[5], images(data.images).load_views(chosen[5:6], RandomCrop(0, 0))[0])
