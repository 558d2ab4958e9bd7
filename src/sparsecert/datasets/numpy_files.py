"""Arrays in NumPy's files: one .npz, or .npy files beside each other."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsecert.datasets.arrays import EITHER, Arrays, Pair
from sparsecert.errors import InputError

IMAGES = "images", "x", "data", "inputs", "features"
LABELS = "labels", "y", "targets", "target", "label"
CLASSES = "classes", "class_names", "names"
SPLIT_WORDS = {"train": ("train", "training"), "test": ("test", "val", "valid", "validation")}
NAMES = "images and labels, or x and y, alone or with _train and _test"
CLASS_FILES = "classes.txt", "class_names.txt"


def read_npz(path: Path) -> Arrays:
    """The arrays of an .npz file; nothing in it is unpickled."""
    try:
        with np.load(path, allow_pickle=False) as found:
            return _paired(path, found.files, lambda name: np.asarray(found[name]))
    except InputError:
        raise
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise _unreadable(path, error) from error


def read_npy(path: Path) -> Arrays:
    """The .npy files of a folder, or of the folder of the file named: images.npy beside labels.npy."""
    folder = path if path.is_dir() else path.parent
    files = {file.stem: file for file in sorted(folder.glob("*.npy"))}
    if not path.is_dir():  # that one, its labels, and class names
        wanted = _partners(path.stem)
        files = {stem: file for stem, file in files.items() if stem.lower() in (path.stem.lower(), *wanted, *CLASSES)}
        if not {stem.lower() for stem in files} & set(wanted):
            names = " or ".join(f"{name}.npy" for name in wanted) or "images.npy and labels.npy"
            raise InputError(f"{path} needs its labels beside it, in {names}")
    arrays = _paired(path, files, lambda name: _load(files[name]))
    return Arrays(arrays.splits, arrays.classes or class_file(folder))


def class_file(folder: Path) -> tuple[str, ...] | None:
    """The class names of a folder's classes.txt, one per line, if it has one."""
    for name in CLASS_FILES:
        if (folder / name).is_file():
            return tuple(line.strip() for line in (folder / name).read_text("utf-8").splitlines() if line.strip())
    return None


def _load(path: Path) -> NDArray[Any]:
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> InputError:
    return InputError(f"{path} cannot be read as arrays ({' '.join(str(error).split())}); write it with numpy.save")


def _paired(path: Path, names: Iterable[str], read: Callable[[str], NDArray[Any]]) -> Arrays:
    """The images and labels of each split, by the names of the arrays."""
    known = {name.lower(): name for name in names}
    splits: dict[str, Pair] = {}
    for split, words in {EITHER: ("",), **SPLIT_WORDS}.items():
        images, labels = (_find(known, kinds, words) for kinds in (IMAGES, LABELS))
        if images and labels:
            splits[split] = read(images), read(labels)
    if not splits:
        held = ", ".join(sorted(known.values())) or "nothing"
        raise InputError(f"{path} must hold arrays named {NAMES}; it holds {held}")
    if len(splits) > 1:
        splits.pop(EITHER, None)
    listed = _find(known, CLASSES, ("",))
    return Arrays(splits, None if listed is None else tuple(str(name) for name in read(listed).ravel().tolist()))


def _find(known: dict[str, str], kinds: Iterable[str], words: Iterable[str]) -> str | None:
    """The array of one of these kinds: "x", or with a word for its split "x_test", "test_x" or "xtest"."""
    spelled = (name for kind in kinds for word in words for name in _spellings(kind, word))
    return next((known[name] for name in spelled if name in known), None)


def _spellings(kind: str, word: str) -> list[str]:
    return [f"{kind}_{word}", f"{word}_{kind}", f"{kind}{word}"] if word else [kind]


def _partners(stem: str) -> list[str]:
    """What the labels of these images may be called: train_labels for train_images."""
    return [
        stem.lower()[: found.start()] + label + stem.lower()[found.end() :]
        for kind, label in zip(IMAGES, LABELS, strict=True)
        if (found := re.search(rf"(?<![a-z]){kind}(?![a-z])", stem.lower()))
    ]
