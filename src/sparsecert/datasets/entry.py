"""What is registered of a data set: how it is loaded, where it comes from, and how models of it are trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sparsecert.datasets.dataset import SPLITS, Dataset


@dataclass(frozen=True)
class Source:
    """One file to fetch: its address, its checksum, and where it goes, relative to the data folder.

    `path` is where the file itself goes. For a tar archive, `archive_root` is the folder inside it that is kept, and
    `unpacked` is where that folder goes; for a plain file both are empty.
    """

    url: str
    md5: str
    path: str
    archive_root: str = ""
    unpacked: str = ""


@dataclass(frozen=True)
class DatasetEntry:
    """A data set that is loaded by name.

    load: one split, from the folder of data sets. recipe: how models of it are trained, unless another is asked for.
    sources: what `sparsecert data get` downloads; where there are none, `obtain` says how to get it, unless it ships
    with the package. folder: where its image files lie in the folder of data sets; empty if it is held in memory.
    """

    load: Callable[[str, Path], Dataset]
    splits: tuple[str, ...] = SPLITS
    recipe: str = "paper-imagenet"
    sources: tuple[Source, ...] = ()
    obtain: str = "see its own documentation"
    ships: bool = False
    folder: str = ""
