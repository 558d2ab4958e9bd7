"""Inputs in parts: a PyTorch `DataLoader` or `Dataset`, or any iterable of batches or of (input, label) pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeGuard

import numpy as np
import torch
from torch.utils.data import Dataset, default_collate

from sparsecert.counts import Int64
from sparsecert.errors import InputError, describe
from sparsecert.results import Certifications, concatenate

SINGLES = 64  # inputs that come one by one are certified so many at a time


def is_loader(x: Any) -> TypeGuard[Iterable[Any]]:
    """Whether these are parts to iterate over, not a tensor of inputs."""
    return isinstance(x, Iterable | Dataset) and not isinstance(x, torch.Tensor | np.ndarray | str | bytes)


def certify_batches(
    certify: Callable[[torch.Tensor, Sequence[int]], Certifications],
    batches: Iterable[Any],
    examples: Sequence[int] | None,
) -> Certifications:
    """The certifications of all batches as one, the same as of one tensor of all inputs; with the labels, if any.

    certify: of some inputs with their numbers, which go on from batch to batch, as do the masks they decide.
    """
    parts, done = [], 0
    for inputs, labels in _pairs(batches):
        numbers = example_numbers(None if examples is None else examples[done : done + len(inputs)], len(inputs), done)
        parts.append(replace(certify(inputs, numbers), truth=labels))
        done += len(inputs)
    if not parts:
        raise InputError("there must be at least one batch of inputs, got none")
    if examples is not None and len(examples) != done:
        raise InputError(f"examples must number each of the {done} inputs, got {len(examples)}")
    return concatenate(parts)


def example_numbers(examples: Sequence[int] | None, inputs: int, start: int = 0) -> Sequence[int]:
    """The numbers that decide each input's masks."""
    numbers = range(start, start + inputs) if examples is None else examples
    if len(numbers) != inputs:
        raise InputError(f"examples must number each of the {inputs} inputs, got {len(numbers)}")
    return numbers


def _batched(parts: Any) -> Iterator[Any]:
    """The parts, those that hold a single input in batches: the items of a `Dataset`, and pairs with one label."""
    items = not isinstance(parts, Iterable)
    singles: list[Any] = []
    for part in map(parts.__getitem__, range(len(parts))) if items else parts:
        single = items or (isinstance(part, tuple | list) and len(part) == 2 and _is_one_label(part[1]))
        if singles and (not single or len(singles) == SINGLES):
            yield _collate(singles)
            singles = []
        if single:
            singles.append(part)
        else:
            yield part
    if singles:
        yield _collate(singles)


def _is_one_label(label: Any) -> bool:
    return label is not None and np.ndim(label) == 0


def _collate(singles: list[Any]) -> Any:
    try:
        return default_collate(singles)
    except (TypeError, RuntimeError) as error:
        first = singles[0][0] if isinstance(singles[0], tuple | list) else singles[0]
        raise InputError(
            f"inputs must be tensors of one shape to make a batch, got {describe(first)} first ({error}); convert "
            "them, or use a DataLoader"
        ) from error


def _pairs(parts: Iterable[Any]) -> Iterator[tuple[torch.Tensor, Int64 | None]]:
    for batch in _batched(parts):
        inputs, labels = batch if isinstance(batch, tuple | list) and len(batch) == 2 else (batch, None)
        if not isinstance(inputs, torch.Tensor):
            raise InputError(
                f"inputs must be a tensor, or batches that are tensors or (inputs, labels) pairs, got {describe(batch)}"
            )
        yield inputs, None if labels is None else _numbers(labels, len(inputs))


def _numbers(labels: Any, count: int) -> Int64:
    found = np.asarray(labels.cpu() if isinstance(labels, torch.Tensor) else labels)
    if found.dtype.kind not in "iub":
        raise InputError(f"labels must be numbers of classes, got {found.ravel()[:1].tolist()}; number the classes")
    if found.shape != (count,):
        raise InputError(f"labels must be one per input ({count}), got an array of {found.shape}")
    return found.astype(np.int64)
