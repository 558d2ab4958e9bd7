"""Images of a run's inputs and of their ablated copies, from its data set."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sparsecert import datasets
from sparsecert.datasets import DATASETS, Dataset
from sparsecert.datasets.torch_dataset import is_function
from sparsecert.errors import InputError
from sparsecert.records import Header, is_exact
from sparsecert.reports.pictures import NULL, Pixels, with_null
from sparsecert.schemes import ENUMERATION, ESTIMATION, PREDICTION
from sparsecert.schemes import from_config as scheme_from_config


def load_data(header: Header, data_dir: str | Path | None, name: str | None = None) -> Dataset:
    """The data set of a run, or of this name in its place; refuses one with another fingerprint."""
    known = header.run["data"]
    if "fingerprint" not in known:
        raise InputError("these records do not say which data set they are of; save them with data=, a Dataset")
    if known.get("skipped"):
        raise InputError(f"this run skipped {known['skipped']} files of {known['name']}")
    if name is None and is_function(known["name"]):  # records say what is read, never what is run
        raise InputError(f"the images come from the function {known['name']}; to call it, add --data {known['name']}")
    data = datasets.load(name or known["name"], known["split"], data_dir, size=known.get("resized"))
    if data.fingerprint() != known["fingerprint"]:
        raise InputError(f"the {data.name} found here is not that of this run (its fingerprint differs)")
    return data


def class_names(header: Header, data: Dataset | None) -> list[str]:
    """The names of a run's classes; their numbers if unknown."""
    count, known = header.run["classes"], header.run["data"]
    loaded = () if data is None else data.classes
    listed = DATASETS[known["name"]].classes if known["name"] in DATASETS else ()
    for names in (loaded, known.get("class_names"), listed):
        if isinstance(names, list | tuple) and len(names) == count:
            return [str(name) for name in names]
    return [str(label) for label in range(count)]


def null_colour(data: Dataset) -> str:
    """The name of the colour that stands for NULL; refuses inputs that are not images."""
    if len(data.images.shape) != 3 or data.images.shape[0] not in NULL:
        raise InputError(f"the inputs of {data.name} are not images with one or three channels")
    return NULL[data.images.shape[0]][0]


def picture(data: Dataset, example: int) -> bytes:
    """The unablated input, as PNG."""
    return _png(np.moveaxis(data.images.batch([example])[0], 0, 2))


def select_draws(header: Header, count: int) -> list[int]:
    """Which copies of an input to show: the first, or evenly spaced ones of a fixed set of masks."""
    run = header.run
    if is_exact(header):
        count = min(count, run["masks"])
        return [i * run["masks"] // count for i in range(count)]
    return list(range(min(count, run["n"])))


def ablated_copies(header: Header, data: Dataset, example: int, draws: Sequence[int]) -> list[bytes]:
    """These ablated copies of an input as PNG, exactly as the model saw them, with NULL in colour.

    They are those of the estimation votes (for predictions: of the votes; for a fixed set: of all masks).
    """
    import torch

    from sparsecert.encodings import Grouped, NullChannels, from_config

    run, pixels = header.run, data.images.batch([example])
    scheme, encoding = scheme_from_config(run["scheme"]), from_config(run["encoding"])
    scheme = scheme.for_units(encoding.units(pixels.shape[1:]).count)
    start = ENUMERATION if is_exact(header) else ESTIMATION if header.certifies else PREDICTION
    masks = scheme.masks(run.get("seed", 0), [example], [start + draw for draw in draws])[0]
    if scheme.values is not None:  # no unit is NULL: they show other values
        copies = encoding(torch.from_numpy(pixels).float() / 255, masks)
        return [_png(copy) for copy in (copies * 255).round().to(torch.uint8).movedim(1, 3).numpy()]
    # On an image of ones, NULL channels show what a mask retains.
    retaining = Grouped(NullChannels(), encoding.groups) if isinstance(encoding, Grouped) else NullChannels()
    ones = torch.ones(len(draws), *pixels.shape[1:])
    retained = (retaining(ones, masks)[:, : pixels.shape[1]] > 0).numpy()
    return [_png(with_null(pixels[0], kept)) for kept in retained]


def _png(pixels: Pixels) -> bytes:
    """An image [h, w, c] as PNG."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels.copy()).save(file, "PNG", optimize=True)
    return file.getvalue()
