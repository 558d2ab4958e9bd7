"""Inputs that come in batches: a PyTorch `DataLoader`, or any iterable of tensors or (inputs, labels) pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeGuard

import numpy as np
import torch

from sparsecert.counts import Int64
from sparsecert.errors import InputError, describe
from sparsecert.results import Certifications, concatenate


def is_loader(x: Any) -> TypeGuard[Iterable[Any]]:
    """Whether these are batches of inputs, not inputs."""
    return isinstance(x, Iterable) and not isinstance(x, torch.Tensor | np.ndarray | str | bytes)


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


def _pairs(batches: Iterable[Any]) -> Iterator[tuple[torch.Tensor, Int64 | None]]:
    for batch in batches:
        inputs, labels = batch if isinstance(batch, tuple | list) and len(batch) == 2 else (batch, None)
        if not isinstance(inputs, torch.Tensor):
            raise InputError(
                f"inputs must be a tensor, or batches that are tensors or (inputs, labels) pairs, got {describe(batch)}"
            )
        truth = None if labels is None else np.asarray(torch.as_tensor(labels).cpu(), dtype=np.int64)
        if truth is not None and truth.shape != (len(inputs),):
            raise InputError(f"labels must be one per input ({len(inputs)}), got an array of {truth.shape}")
        yield inputs, truth
