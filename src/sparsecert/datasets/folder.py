"""Images in the ImageNet layout: ROOT/{train,val}/<class>/<image>, decoded when they are asked for."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sparsecert.datasets.dataset import Dataset, check_split, checked_indices
from sparsecert.datasets.views import CentreCrop, RandomCrop, View, decoded
from sparsecert.datasets.workers import default_workers
from sparsecert.errors import InputError

SUFFIXES = (".jpeg", ".jpg", ".png", ".bmp", ".ppm", ".webp", ".tif", ".tiff")
SPLIT_FOLDERS = {"train": ("train",), "test": ("val", "test")}
LAYOUT = "{train,val}/<class folder>/<image>.JPEG"
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
HASHED_WHOLE = 1024  # files of a data set whose every byte its fingerprint is made of; of the others, name and length
LISTED_AT_ONCE = 1024


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
        return self.viewed(indices, CentreCrop())

    def random_crops(self, indices: Sequence[int] | NDArray[np.int64], seed: int, epoch: int) -> NDArray[np.uint8]:
        """Random resized crops with flips; each is a function of (seed, epoch, index), whatever else is asked for."""
        return self.viewed(indices, RandomCrop(seed, epoch))

    def viewed(self, indices: Sequence[int] | NDArray[np.int64], view: View) -> NDArray[np.uint8]:
        """What `view` shows of the images at `indices`, decoded by threads; `Stream` does so by processes, ahead."""
        wanted = checked_indices(indices, len(self)).tolist()
        pixels = np.empty((len(wanted), *self.shape), dtype=np.uint8)

        def decode(index: int) -> NDArray[np.uint8]:
            return decoded(self.root / self.files[index], view, self.size, index)

        with ThreadPoolExecutor(default_workers()) as pool:
            for row, image in zip(pixels, pool.map(decode, wanted), strict=True):
                row[:] = image
        return pixels

    def fingerprint(self) -> str:
        """SHA-256 over the image size, every file's relative path and length in order, and the bytes of 1,024 files.

        So it changes when a file is added, removed, renamed, or replaced by one of another length. A change that keeps
        a file's length is noticed for certain in sets of up to 1,024 files, whose every byte is read; in a larger set,
        when the file is one of 1,024 evenly spaced ones, those at floor(i n / 1024). It is no protection against
        somebody who alters files on purpose. Of ImageNet's 150 GB some 0.1 GB are read.
        """
        count = len(self.files)
        whole = set(range(count)) if count <= HASHED_WHOLE else {i * count // HASHED_WHOLE for i in range(HASHED_WHOLE)}

        def facts(start: int) -> list[str]:
            indices = range(start, min(start + LISTED_AT_ONCE, count))
            return [_fact(os.path.join(self.root, self.files[i]), i in whole) for i in indices]  # noqa: PTH118

        digest = hashlib.sha256(repr(self.shape).encode())
        with ThreadPoolExecutor(default_workers()) as pool:
            found = (fact for some in pool.map(facts, range(0, count, LISTED_AT_ONCE)) for fact in some)
            for file, fact in zip(self.files, found, strict=True):
                digest.update(f"\n{file}\0{fact}".encode(errors="surrogateescape"))
        return digest.hexdigest()


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
    found = {label: _class_folder(folder / known) for label, known in enumerate(classes) if known in own}
    files = {label: names for label, (names, _) in found.items()}
    others = [f"{classes[label]}/{name}" for label, (_, rest) in found.items() for name in rest]
    return Dataset(
        name=name or str(root),
        split=split,
        images=FolderImages(folder, tuple(f"{classes[k]}/{file}" for k in files for file in files[k]), size),
        labels=np.repeat(np.array(list(files), dtype=np.int64), [len(files[k]) for k in files]),
        classes=classes,
        mean=MEAN,
        std=STD,
        others=(*sorted(entry.name for entry in _entries(folder) if not entry.is_dir()), *others),
    )


def others_line(data: Dataset) -> str:
    """How much lies in a folder that is not taken for an image, with an example."""
    found = f"{len(data.others):,} {'entry' if len(data.others) == 1 else 'entries'} of {data.name} {data.split}"
    ending = f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
    return f"skipped {found}, such as {data.others[0]}: an image lies in a class folder and ends in {ending}"


def has_split(root: Path, split: str) -> bool:
    """Whether the folder of this split is there."""
    return any((root / folder).is_dir() for folder in SPLIT_FOLDERS[split])


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


def _class_folder(folder: Path) -> tuple[list[str], list[str]]:
    """The names of its images, sorted, and of what else is there.

    Refuses what bears an image's name but is no file: whoever opened a pipe would wait for ever.
    """
    entries = _entries(folder)
    found = [entry for entry in entries if entry.name.lower().endswith(SUFFIXES)]
    if not found:
        raise InputError(f"{folder} holds no images ({', '.join(SUFFIXES)}); remove the folder or fill it")
    for entry in found:
        if not entry.is_file():
            raise InputError(f"{entry.path} is not a file, nor a link to one that is there; remove it or rename it")
    images = sorted(entry.name for entry in found)
    return images, sorted({entry.name for entry in entries}.difference(images))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if not entry.name.startswith(".")]
    except OSError as error:
        raise InputError(f"{folder} cannot be listed ({error.strerror}); check its permissions") from error


def _fact(path: str, whole: bool) -> str:
    """The length of a file, or a hash of all that it holds."""
    try:
        if not whole:
            return str(os.stat(path).st_size)  # noqa: PTH116 (a Path for each of a million files takes as long again)
        digest = hashlib.sha256()
        with open(path, "rb") as file:  # noqa: PTH123
            while block := file.read(1 << 20):
                digest.update(block)
        return digest.hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}; restore it or load the folder again") from error
