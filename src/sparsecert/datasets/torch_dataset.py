"""A PyTorch `Dataset` that a function of one's own returns, named as module:function."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from inspect import signature
from typing import Any

import numpy as np

from sparsecert.datasets.arrays import EITHER, Arrays, Pair
from sparsecert.datasets.entry import SPLITS
from sparsecert.errors import InputError, describe_failure

NAME = re.compile(r"(?P<module>[^\W\d]\w*(\.[^\W\d]\w*)*):(?P<function>[^\W\d]\w*)")


def is_function(name: str) -> bool:
    """Whether a data set is named as module:function."""
    return NAME.fullmatch(name) is not None


def read_function(name: str) -> Arrays:
    """All images of the data sets that the function returns, which is imported because the user names it.

    It is called with "train" and with "test"; without an argument, if it takes none, for one set that serves as either.
    """
    function = _import(name)
    asked: dict[str, tuple[str, ...]] = {split: (split,) for split in SPLITS} if takes_split(name) else {EITHER: ()}
    try:
        found = {split: function(*arguments) for split, arguments in asked.items()}
    except Exception as error:
        raise InputError(f"{name} failed: {describe_failure(error)}") from error
    classes = next((one.classes for one in found.values() if getattr(one, "classes", None) is not None), None)
    return Arrays(
        {split: _pair(name, one) for split, one in found.items()},
        None if classes is None else tuple(map(str, classes)),
    )


def takes_split(name: str) -> bool:
    """Whether the function is asked for a split, not called for one set that serves as either."""
    return bool(signature(_import(name)).parameters)


def _import(name: str) -> Callable[..., Any]:
    found = NAME.fullmatch(name)
    assert found is not None
    module, function = found["module"], found["function"]
    try:
        thing = getattr(import_module(module), function, None)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
            raise InputError(f"{name}: its module needs {error.name}, which is not installed") from error
        where = "add the folder it is in to the path: PYTHONPATH=FOLDER sparsecert ..."
        raise InputError(f"{name}: there is no module {module}; {where}") from error
    except Exception as error:
        raise InputError(f"{name} cannot be imported: {error!r}") from error
    if not callable(thing):
        raise InputError(f"{name}: the module {module} has no function {function}")
    return thing  # type: ignore[no-any-return]


def _pair(name: str, found: Any) -> Pair:
    """Images and labels of a data set of (image, label) pairs: tensors, arrays or Pillow images."""
    if not hasattr(found, "__getitem__") or not hasattr(found, "__len__"):
        raise InputError(f"{name} must return a data set with a length, such as torch's Dataset, got {found!r:.100}")
    try:
        pairs = [found[place] for place in range(len(found))]
    except Exception as error:
        raise InputError(f"the data set that {name} returned failed: {describe_failure(error)}") from error
    if not pairs or not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        raise InputError(f"{name} must return a data set of (image, label) pairs; it has {len(pairs)} items")
    images = [np.asarray(image) for image, _ in pairs]
    if len({image.shape for image in images}) > 1:
        raise InputError(f"{name} must return images of one size; resize them in it")
    return np.stack(images), np.array([label if isinstance(label, str) else int(label) for _, label in pairs])
