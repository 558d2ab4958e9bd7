"""Image folders in the ImageNet layout: ROOT/{train,val}/<class>/<image>, decoded on demand."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sparsecert.datasets.entry import check_split
from sparsecert.datasets.views import CentreCrop, View, load_view
from sparsecert.datasets.workers import default_workers
from sparsecert.errors import InputError
from sparsecert.inputs.images import Dataset, Indices, check_indices

SUFFIXES = (".jpeg", ".jpg", ".png", ".bmp", ".ppm", ".webp", ".tif", ".tiff")
SPLIT_FOLDERS = {"train": ("train",), "test": ("val", "test")}
LAYOUT = "{train,val}/<class folder>/<image file>"
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
MAX_HASHED = 1024  # files whose bytes enter the fingerprint; of the others, only name and length do
FILES_PER_TASK = 1024


@dataclass(frozen=True)
class FolderImages:
    """Image files below `root`, `size` pixels high and, unless `width` is given, wide; RGB, or grey for one channel.

    Nothing is cached between calls.
    """

    root: Path
    files: tuple[str, ...]
    size: int = 224
    width: int | None = None
    channels: int = 3

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.channels, self.size, self.width or self.size)

    def __len__(self) -> int:
        return len(self.files)

    def batch(self, indices: Indices) -> NDArray[np.uint8]:
        """The images at `indices`, as `CentreCrop` shows them."""
        return self.load_views(indices, CentreCrop())

    def load_views(self, indices: Indices, view: View) -> NDArray[np.uint8]:
        """`view` of the images at `indices`, decoded by threads; `Stream` decodes ahead, in processes."""
        wanted = check_indices(indices, len(self)).tolist()
        pixels = np.empty((len(wanted), *self.shape), dtype=np.uint8)

        def decode(index: int) -> NDArray[np.uint8]:
            return load_view(self.root / self.files[index], view, self.shape, index)

        with ThreadPoolExecutor(default_workers()) as pool:
            for row, image in zip(pixels, pool.map(decode, wanted), strict=True):
                row[:] = image
        return pixels

    def fingerprint(self) -> str:
        """SHA-256 of the image size, every file's relative path and length in order, and the bytes of 1,024 files.

        It changes when a file is added, removed, renamed, or replaced by one of another length. A change that keeps the
        length is detected in sets of up to 1,024 files, all of whose bytes are read; in a larger set, only in the
        evenly spaced files at floor(i n / 1024). It does not protect against deliberate tampering. Of ImageNet's 150 GB
        about 0.1 GB is read.
        """
        count = len(self.files)
        whole = set(range(count)) if count <= MAX_HASHED else {i * count // MAX_HASHED for i in range(MAX_HASHED)}

        def digests(start: int) -> list[str]:
            indices = range(start, min(start + FILES_PER_TASK, count))
            return [_length_or_digest(os.path.join(self.root, self.files[i]), i in whole) for i in indices]  # noqa: PTH118

        digest = hashlib.sha256(repr(self.shape).encode())
        with ThreadPoolExecutor(default_workers()) as pool:
            found = (one for some in pool.map(digests, range(0, count, FILES_PER_TASK)) for one in some)
            for file, one in zip(self.files, found, strict=True):
                digest.update(f"\n{file}\0{one}".encode(errors="surrogateescape"))
        return digest.hexdigest()


def load(root: Path, split: str, size: int = 224, name: str | None = None) -> Dataset:
    """One split of a folder: "train" reads train/, "test" reads val/ or else test/.

    Classes are the sorted folder names of train/ (of the split itself if there is no train/); files are sorted within
    their class, so the same files get the same indices on every machine.
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
    non_images = [f"{classes[label]}/{name}" for label, (_, rest) in found.items() for name in rest]
    return Dataset(
        name=name or str(root),
        split=split,
        images=FolderImages(folder, tuple(f"{classes[k]}/{file}" for k in files for file in files[k]), size),
        labels=np.repeat(np.array(list(files), dtype=np.int64), [len(files[k]) for k in files]),
        classes=classes,
        mean=MEAN,
        std=STD,
        non_images=(*sorted(entry.name for entry in _entries(folder) if not entry.is_dir()), *non_images),
        where=root,
    )


def describe_non_images(data: Dataset) -> str:
    """One line: how many entries of the folder are not images, with an example."""
    found = (
        f"{len(data.non_images):,} {'entry' if len(data.non_images) == 1 else 'entries'} of {data.name} {data.split}"
    )
    ending = f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
    return f"skipped {found}, such as {data.non_images[0]}: images must be in a class folder and end in {ending}"


def has_split(root: Path, split: str) -> bool:
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
        raise InputError(f"{folder} has no class folders; the layout is {folder}/<class folder>/<image file>")
    return names


def _class_folder(folder: Path) -> tuple[list[str], list[str]]:
    """The names of its images and of its other entries, both sorted.

    Refuses an entry with an image's suffix that is not a file: opening a pipe would block forever.
    """
    entries = _entries(folder)
    found = [entry for entry in entries if entry.name.lower().endswith(SUFFIXES)]
    if not found:
        raise InputError(f"{folder} holds no images ({', '.join(SUFFIXES)}); remove the folder or fill it")
    for entry in found:
        if not entry.is_file():
            raise InputError(f"{entry.path} is neither a file nor a link to one; remove or rename it")
    images = sorted(entry.name for entry in found)
    return images, sorted({entry.name for entry in entries}.difference(images))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if not entry.name.startswith(".")]
    except OSError as error:
        raise InputError(f"{folder} cannot be listed ({error.strerror}); check its permissions") from error


def _length_or_digest(path: str, whole: bool) -> str:
    """A file's length, or the SHA-256 of its bytes if `whole`."""
    try:
        if not whole:
            return str(os.stat(path).st_size)  # noqa: PTH116 (a million Paths would take as long again)
        digest = hashlib.sha256()
        with open(path, "rb") as file:  # noqa: PTH123
            while block := file.read(1 << 20):
                digest.update(block)
        return digest.hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}; restore it or load the folder again") from error
