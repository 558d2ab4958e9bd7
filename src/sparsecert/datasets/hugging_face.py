"""A Hugging Face data set of images that `save_to_disk` wrote: Arrow files beside state.json, read by pyarrow."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from sparsecert.datasets.arrays import EITHER, Arrays, Pair
from sparsecert.errors import InputError

DICT, STATE, INFO = "dataset_dict.json", "state.json", "dataset_info.json"
SPLIT_WORDS = {"train": ("train",), "test": ("test", "validation", "valid", "val")}


def is_saved(folder: Path) -> bool:
    """Whether `save_to_disk` wrote this folder."""
    return (folder / DICT).is_file() or (folder / STATE).is_file()


def read_saved(folder: Path) -> Arrays:
    """The images and labels of each split: the columns whose features are Image and ClassLabel."""
    if (folder / STATE).is_file():
        pair, classes = _read(folder)
        return Arrays({EITHER: pair}, classes)
    found = {}
    for split, words in SPLIT_WORDS.items():
        there = next((folder / word for word in words if (folder / word / STATE).is_file()), None)
        if there is not None:
            found[split] = _read(there)
    if not found:
        raise InputError(f"{folder} has no split train or test; save them with DatasetDict.save_to_disk")
    return Arrays({split: pair for split, (pair, _) in found.items()}, next(iter(found.values()))[1])


def _read(folder: Path) -> tuple[Pair, tuple[str, ...] | None]:
    state, info = (_json(folder / name) for name in (STATE, INFO))
    kinds = {name: kind for name, kind in info.get("features", {}).items() if isinstance(kind, dict)}
    images, labels = (
        next((name for name, kind in kinds.items() if kind.get("_type") == wanted), None)
        for wanted in ("Image", "ClassLabel")
    )
    if images is None or labels is None:
        held = ", ".join(f"{name} ({kind.get('_type')})" for name, kind in kinds.items()) or "nothing"
        raise InputError(f"{folder} needs a column of Image and one of ClassLabel; it has {held}")
    if state.get("_indices_data_files"):
        raise InputError(f"{folder} selects rows by index; save it again after flatten_indices()")
    table = _table([folder / file["filename"] for file in state.get("_data_files", [])], folder)
    cells = table.column(images).to_pylist()
    pixels = [_decode(cell, folder, place) for place, cell in enumerate(cells)]
    sizes = sorted({one.shape for one in pixels})
    if len(sizes) != 1:
        raise InputError(f"{folder} must hold images of one size and mode, got {len(sizes)}; resize them with map()")
    names = kinds[labels].get("names")
    classes = tuple(map(str, names)) if names else None
    return (np.stack(pixels), np.array(table.column(labels).to_pylist(), dtype=np.int64)), classes


def _table(files: list[Path], folder: Path) -> Any:
    try:
        import pyarrow as pa
    except ImportError as error:
        raise InputError(f"{folder} is a Hugging Face data set, which needs pyarrow: pip install pyarrow") from error
    try:
        parts = []
        for file in files:
            with pa.memory_map(str(file)) as source:
                parts.append(pa.ipc.open_stream(source).read_all())
        return pa.concat_tables(parts)
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(
            f"{folder} cannot be read ({' '.join(str(error).split())}); save the data set again"
        ) from error


def _json(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}); save the data set again") from error
    return found


def _decode(cell: Any, folder: Path, place: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The pixels of a cell that embeds an image file; grey stays grey."""
    from PIL import Image

    from sparsecert.datasets.image_file import FORMATS, GREY

    data = cell.get("bytes") if isinstance(cell, dict) else None
    if data is None:
        raise InputError(f"{folder} does not embed image {place}, only its path; save it with the images embedded")
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            return np.asarray(image.convert("L" if image.mode in GREY else "RGB"), dtype=np.uint8)
    except Exception as error:  # Pillow's decoders raise almost anything on a damaged file
        raise InputError(f"image {place} of {folder} cannot be decoded ({error}); replace it") from error
