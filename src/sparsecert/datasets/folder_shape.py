"""Image folders of one's own, at the size and with the channels of their files."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from math import prod
from pathlib import Path

from sparsecert.datasets import folder
from sparsecert.datasets.entry import SPLITS
from sparsecert.datasets.folder import FolderImages
from sparsecert.datasets.image_file import BadImage, size_and_channels
from sparsecert.datasets.workers import default_workers
from sparsecert.errors import check_int
from sparsecert.inputs.images import ArrayImages, Dataset

PHOTOGRAPHS = 224  # the size of images that have different ones
SMALL = 96  # sides of images that are held in memory
MOST_BYTES = 4 << 30  # of all of them
FILES_AT_ONCE = 256
GREY_MEAN, GREY_STD = (0.449,), (0.226,)  # of ImageNet's photographs in grey


def load_folder(root: Path, split: str, name: str, size: int | None) -> Dataset:
    """One split as files. Sizes and channels are those of all images of the folder, so every split has the same.

    If all have one size, it is kept; else they are cropped to squares of 224 pixels, which `notes` say. `size` asks
    for squares of another. They are grey if all files are. Files that cannot be opened are left to the decoder.
    """
    data = folder.load(root, split, name=name)
    images = _files(data)
    notes: tuple[str, ...] = ()
    sizes, channels = _sizes_and_channels(_all_paths(root, images, split))
    if size is not None:
        images = replace(images, size=check_int("resize", size, 1, 10_000), channels=channels)
    elif len(sizes) == 1:
        ((width, height),) = sizes
        images = replace(images, size=height, width=None if width == height else width, channels=channels)
    else:
        images = replace(images, size=PHOTOGRAPHS, channels=channels)
        crop = f"{PHOTOGRAPHS} x {PHOTOGRAPHS}"
        notes = (f"images of {name} differ in size: resized and cropped to {crop}; --resize asks for another size",)
    mean, std = (GREY_MEAN, GREY_STD) if channels == 1 else (data.mean, data.std)
    return replace(data, images=images, mean=mean, std=std, resized=size, notes=notes)


def hold_if_small(data: Dataset) -> Dataset:
    """The same images in memory, decoded once, if they are no larger than 96 x 96; else as they are."""
    images = data.images
    if not isinstance(images, FolderImages) or max(images.shape[1:]) > SMALL:
        return data
    if len(images) * prod(images.shape) > MOST_BYTES:
        return data
    return replace(data, images=ArrayImages(images.batch(range(len(images)))))


def _files(data: Dataset) -> FolderImages:
    assert isinstance(data.images, FolderImages)
    return data.images


def _all_paths(root: Path, images: FolderImages, split: str) -> Iterator[Path]:
    """The files of this split, then those of the others, whose folders are listed only if they are asked for."""
    yield from (images.root / file for file in images.files)
    for other in SPLITS:
        if other != split and folder.has_split(root, other):
            more = _files(folder.load(root, other))
            yield from (more.root / file for file in more.files)


def _sizes_and_channels(paths: Iterator[Path]) -> tuple[set[tuple[int, int]], int]:
    """The sizes of the images, or two of them if they differ, and their channels; stops once both are known."""
    sizes: set[tuple[int, int]] = set()
    channels = 1
    for width, height, depth in _headers(paths):
        if len(sizes) < 2:
            sizes.add((width, height))
        channels = max(channels, depth)
        if len(sizes) == 2 and channels == 3:
            break
    return sizes, channels if sizes else 3


def _headers(paths: Iterator[Path]) -> Iterator[tuple[int, int, int]]:
    """Width, height and channels of each image that can be opened; headers are read by threads, some files ahead."""

    def header(path: Path) -> tuple[int, int, int] | None:
        try:
            return size_and_channels(path)
        except BadImage:
            return None

    with ThreadPoolExecutor(default_workers()) as pool:
        while some := list(islice(paths, FILES_AT_ONCE)):
            yield from filter(None, pool.map(header, some))
