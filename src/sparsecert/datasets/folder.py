"""Images in the ImageNet layout: ROOT/{train,val}/<class>/<image>, decoded when they are asked for."""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sparsecert.datasets import random_crop
from sparsecert.datasets.dataset import Dataset, check_split, checked_indices
from sparsecert.errors import InputError

SUFFIXES = (".jpeg", ".jpg", ".png", ".bmp", ".ppm", ".webp", ".tif", ".tiff")
SPLIT_FOLDERS = {"train": ("train",), "test": ("val", "test")}
LAYOUT = "{train,val}/<class folder>/<image>.JPEG"
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
# Resizing the shorter side multiplies the longer one: a strip of one pixel's height would fill the memory.
MAX_ELONGATION = 100
WORKERS = min(8, os.cpu_count() or 1)
HASHED_AT_ONCE = 4096

# What Pillow's decoders are known to raise on damaged files, besides its own UnidentifiedImageError (an OSError).
DAMAGE = (OSError, SyntaxError, ValueError, EOFError, IndexError, struct.error, zlib.error)
BOMB = (Image.DecompressionBombError, Image.DecompressionBombWarning)


@dataclass(frozen=True)
class FolderImages:
    """Image files below `root`, as RGB squares of `size` pixels; nothing is kept in memory between calls."""

    root: Path
    files: tuple[str, ...]
    size: int = 224

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, height and width of every image."""
        return (3, self.size, self.size)

    def __len__(self) -> int:
        return len(self.files)

    def batch(self, indices: Sequence[int] | NDArray[np.int64]) -> NDArray[np.uint8]:
        """The images at `indices`: shorter side resized to size * 256 / 224, centre cropped; as is if size x size."""
        return self._decode(indices, lambda image, index: _centre(image, self.size))

    def random_crops(self, indices: Sequence[int] | NDArray[np.int64], seed: int, epoch: int) -> NDArray[np.uint8]:
        """Random resized crops with flips; each is a function of (seed, epoch, index), whatever else is asked for."""
        return self._decode(indices, lambda image, index: _random(image, self.size, seed, epoch, index))

    def fingerprint(self) -> str:
        """SHA-256 over the image size and, in order, every relative path and its file's contents."""
        digest = hashlib.sha256(repr(self.shape).encode())
        with ThreadPoolExecutor(WORKERS) as pool:
            for start in range(0, len(self.files), HASHED_AT_ONCE):
                files = self.files[start : start + HASHED_AT_ONCE]
                for file, contents in zip(files, pool.map(lambda f: _hash(self.root / f), files), strict=True):
                    digest.update(f"\n{file}\0{contents}".encode(errors="surrogateescape"))
        return digest.hexdigest()

    def _decode(
        self, indices: Sequence[int] | NDArray[np.int64], view: Callable[[Image.Image, int], Image.Image]
    ) -> NDArray[np.uint8]:
        wanted = checked_indices(indices, len(self))
        pixels = np.empty((len(wanted), *self.shape), dtype=np.uint8)

        def decode(index: int) -> NDArray[np.uint8]:
            return np.asarray(view(_open_rgb(self.root / self.files[index]), index), dtype=np.uint8)

        with ThreadPoolExecutor(WORKERS) as pool:
            for row, image in zip(pixels, pool.map(decode, wanted.tolist()), strict=True):
                row[:] = image.transpose(2, 0, 1)
        return pixels


def load(root: Path, split: str, size: int = 224, name: str | None = None) -> Dataset:
    """One split of a folder: "train" reads train/, "test" reads val/ or else test/.

    Classes are the sorted folder names of train/ (of the split itself when train/ is missing); files are sorted within
    their class, so the same files give the same indices on every machine.
    """
    check_split(split)
    if size < 1:
        raise InputError(f"size must be at least 1, got {size}")
    folder = _split_folder(root, split)
    own = _class_names(folder)
    classes = _class_names(root / "train") if (root / "train").is_dir() else own
    unknown = sorted(set(own) - set(classes))
    if unknown:
        raise InputError(f"{folder / unknown[0]} is a class that {root / 'train'} lacks; remove it or add it there")
    files = {label: _image_names(folder / known) for label, known in enumerate(classes) if known in own}
    return Dataset(
        name=name or str(root),
        split=split,
        images=FolderImages(folder, tuple(f"{classes[k]}/{file}" for k in files for file in files[k]), size),
        labels=np.repeat(np.array(list(files), dtype=np.int64), [len(files[k]) for k in files]),
        classes=classes,
        mean=MEAN,
        std=STD,
    )


def _split_folder(root: Path, split: str) -> Path:
    candidates = [root / folder for folder in SPLIT_FOLDERS[split]]
    for folder in candidates:
        if folder.is_dir():
            return folder
    looked = " or ".join(map(str, candidates))
    raise InputError(f"split {split!r} needs the folder {looked}, which is missing; the layout is {root}/{LAYOUT}")


def _class_names(folder: Path) -> tuple[str, ...]:
    names = tuple(sorted(entry.name for entry in _entries(folder) if entry.is_dir()))
    if not names:
        raise InputError(f"{folder} has no class folders; the layout is {folder}/<class folder>/<image>.JPEG")
    return names


def _image_names(folder: Path) -> list[str]:
    names = sorted(entry.name for entry in _entries(folder) if entry.name.lower().endswith(SUFFIXES))
    if not names:
        raise InputError(f"{folder} holds no images ({', '.join(SUFFIXES)}); remove the folder or fill it")
    return names


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if not entry.name.startswith(".")]
    except OSError as error:
        raise InputError(f"{folder} cannot be listed ({error.strerror}); check its permissions") from error


def _hash(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}; restore it or load the folder again") from error


def _open_rgb(path: Path) -> Image.Image:
    try:
        with Image.open(path) as image:
            _refuse_extremes(path, *image.size)
            if image.mode.startswith(("I", "F")):
                raise InputError(f"{path} has more than 8 bits per channel (mode {image.mode}); convert it to 8 bits")
            return image.convert("RGB")
    except InputError:
        raise
    except BOMB as error:
        raise InputError(f"{path} is too large to decode safely ({error}); shrink or remove it") from error
    except DAMAGE as error:
        raise InputError(f"{path} cannot be decoded as an image ({error}); replace or remove it") from error


def _refuse_extremes(path: Path, width: int, height: int) -> None:
    if max(width, height) > MAX_ELONGATION * min(width, height):
        raise InputError(f"{path} is too elongated to resize ({width} x {height} pixels); crop or remove it")
    # Between one and two times its limit Pillow only warns, and a warning can be filtered away.
    if Image.MAX_IMAGE_PIXELS is not None and width * height > Image.MAX_IMAGE_PIXELS:
        raise InputError(f"{path} is too large to decode safely ({width} x {height} pixels); shrink or remove it")


def _centre(image: Image.Image, size: int) -> Image.Image:
    if image.size == (size, size):
        return image
    shorter = round(size * 256 / 224)
    width, height = (max(shorter, int(shorter * side / min(image.size))) for side in image.size)
    left, top = round((width - size) / 2), round((height - size) / 2)
    return _resized(image, width, height).crop((left, top, left + size, top + size))


def _random(image: Image.Image, size: int, seed: int, epoch: int, index: int) -> Image.Image:
    crop = random_crop.draw(*image.size, seed, epoch, index)
    box = (crop.left, crop.top, crop.left + crop.width, crop.top + crop.height)
    square = _resized(image.crop(box), size, size)
    return square.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if crop.flip else square


def _resized(image: Image.Image, width: int, height: int) -> Image.Image:
    return image.resize((width, height), Image.Resampling.BILINEAR)
