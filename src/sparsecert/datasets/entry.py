"""A registered data set: how to load it, where it comes from, and how to train models on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sparsecert.errors import InputError
from sparsecert.inputs.images import Dataset

SPLITS = ("train", "test")


@dataclass(frozen=True)
class RemoteFile:
    """One file to download: its URL, its checksum, and its `path` below the data folder.

    For a tar archive, `archive_root` is the folder inside it to extract and `unpacked` is where that goes; for a plain
    file both are empty.
    """

    url: str
    md5: str
    path: str
    archive_root: str = ""
    unpacked: str = ""


@dataclass(frozen=True)
class DatasetEntry:
    """A data set that is loaded by name.

    load: one split, from the folder of data sets. recipe: the default training recipe. sources: what `sparsecert data
    get` downloads; without any, `obtain` says how to get it, unless it ships with the package. folder: where its image
    files are in the folder of data sets; empty if it is held in memory. classes: their names, where these are known
    without the data. part_of: the data set that it is a sample of; its training images serve both. title: how it is
    usually written. fingerprints: of the splits that everybody has, to notice other images in their place.
    """

    load: Callable[[str, Path], Dataset]
    splits: tuple[str, ...] = SPLITS
    recipe: str = "paper-imagenet"
    sources: tuple[RemoteFile, ...] = ()
    obtain: str = "see its own documentation"
    ships: bool = False
    folder: str = ""
    classes: tuple[str, ...] = ()
    part_of: str = ""
    title: str = ""
    fingerprints: Mapping[str, str] = field(default_factory=dict)


def check_split(split: str) -> None:
    """Refuses a name that is no split."""
    if split not in SPLITS:
        raise InputError(f"split must be one of {', '.join(SPLITS)}, got {split!r}")
