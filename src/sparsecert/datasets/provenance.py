"""Whether these are the images that a name stands for, and those that a model was trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparsecert import datasets
from sparsecert.errors import InputError
from sparsecert.inputs import Inputs
from sparsecert.inputs.images import ArrayImages, Dataset
from sparsecert.registry import DATASETS


def check_data(facts: Mapping[str, Any], data: Inputs) -> None:
    """Refuses inputs of another shape or with other classes than a model file's facts name."""
    shape = facts.get("shape")
    if shape is not None and list(shape) != list(data.shape):
        wanted, found = (" x ".join(map(str, one)) for one in (shape, data.shape))
        square = isinstance(data, Dataset) and data.name not in DATASETS and len(shape) == 3 and shape[1] == shape[2]
        hint = f"; for an image folder add --resize {shape[1]}" if square else ""
        raise InputError(f"the model was trained on inputs of shape {wanted}, {data.name} has {found}{hint}")
    names = facts.get("class_names")
    if names is not None and len(names) != len(data.classes):
        raise InputError(f"the model has {len(names)} classes, {data.name} has {len(data.classes)}")
    numbered = names is not None and (_numbered(names) or _numbered(data.classes))
    if names is None or (numbered and set(names) != set(data.classes)):
        return
    for place, (wanted, found) in enumerate(zip(names, data.classes, strict=True)):
        if wanted != found:
            raise InputError(
                f"class {place} of the model is {wanted!r}, that of {data.name} is {found!r}; give --data the same "
                "classes in the same order"
            )


def _numbered(classes: Sequence[str]) -> bool:
    """Whether these are numbers in place of names: the data had no names when the model was trained, or have none."""
    return list(classes) == [str(number) for number in range(len(classes))]


def doubts(data: Inputs, facts: Mapping[str, Any]) -> list[str]:
    """What a user should know of these images: that they are not those of their name, or not for a model's test.

    facts: of the model's file.
    """
    found = [other_images(data), other_training(data, facts)] if isinstance(data, Dataset) else []
    return [line for line in found if line is not None]


def other_images(data: Dataset) -> str | None:
    """The line for a data set with a known name that does not hold the images of that name."""
    if data.name not in DATASETS or data.skipped:
        return None
    entry = DATASETS[data.name]
    known = entry.fingerprints.get(data.split)
    if known is None or known == data.fingerprint():
        return None
    return f"{data.name} {data.split}: these are not the images of {entry.title}; check --data-dir"


def other_training(data: Dataset, facts: Mapping[str, Any]) -> str | None:
    """The line for images of another data set than a model was trained on, or for its training images themselves.

    A data set is known by the fingerprint of its training images, wherever it is and whatever its name; by its name
    where that is unknown, or would mean reading a whole folder.
    """
    name = facts.get("data")
    settings = facts.get("training", {}).get("settings", {}).get("data", {})
    known = settings.get("fingerprint")
    if name is None:
        return None
    if known is not None and known == data.fingerprint():
        return f"{data.name} {data.split}: these are the images that the model was trained on"
    found = None if known is None or settings.get("skipped") else _training_fingerprint(data)
    if found is None:
        same = name in (data.name, DATASETS[data.name].part_of if data.name in DATASETS else data.name)
    else:
        same = found == known
    if same:
        return None
    other = f"other images named {name}, or on a part of them" if name == data.name else f"{name}, not on {data.name}"
    return f"the model was trained on {other}; its answers may be poor here"


def _training_fingerprint(data: Dataset) -> str | None:
    """That of the training images that go with these, if it is known or quickly found."""
    if data.name in DATASETS and other_images(data) is None:
        return DATASETS[DATASETS[data.name].part_of or data.name].fingerprints.get("train")
    if not isinstance(data.images, ArrayImages):
        return None
    try:
        if "train" not in datasets.splits_of(data.name, data.where):
            return None
        return datasets.load(data.name, "train", data.where, size=data.resized).fingerprint()
    except InputError:  # made in Python, under a name that nothing is found by
        return None
