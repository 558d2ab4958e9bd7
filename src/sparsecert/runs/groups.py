"""The inputs of a run, in shards and groups."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sparsecert.counts import Int64
from sparsecert.errors import InputError, check_int
from sparsecert.inputs import Inputs, labels_at, to_tensor
from sparsecert.runs.run_spec import Group
from sparsecert.schemes.philox import key_of

CHUNK = 64  # shards are made of chunks of this many inputs: whole groups where the number of samples is fixed
MOST_INPUTS = 1 << 32  # an input's index is a word of the masks' generator


@dataclass(frozen=True)
class Shard:
    """Part `index` (from 1) of `of`; the parts partition the run."""

    index: int
    of: int

    def __post_init__(self) -> None:
        if not 1 <= self.index <= self.of:
            raise InputError(f"shard must be I/N with 1 <= I <= N, got {self}")

    @classmethod
    def parse(cls, text: str) -> Shard:
        """The shard written as 2/8."""
        found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
        if found is None:
            raise InputError(f"shard must be I/N, for example 2/8 for the second of eight, got {text!r}")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.index}/{self.of}"

    def part(self, indices: Int64) -> Int64:
        """This shard's inputs: chunks in round-robin order, smaller ones where there are too few for every shard."""
        if len(indices) < self.of:
            raise InputError(f"shard {self} was asked of {len(indices)} inputs; use at most as many shards as inputs")
        chunk = min(CHUNK, 1 << ((len(indices) // self.of).bit_length() - 1))
        mine: Int64 = indices[np.arange(len(indices)) // chunk % self.of == self.index - 1]
        return mine


@dataclass(frozen=True)
class RandomSample:
    """`limit` random inputs instead of evenly spaced ones (see `Dataset.random_indices`)."""

    limit: int
    seed: int

    def __post_init__(self) -> None:
        check_int("limit", self.limit, 1, MOST_INPUTS)
        key_of(self.seed)


Limit = int | RandomSample | None  # evenly spaced inputs, or random ones; None: all


def indices_of(data: Inputs, limit: Limit, shard: Shard | None = None) -> Int64:
    """The inputs of a run, or of a shard of it."""
    if isinstance(limit, RandomSample):
        indices = data.random_indices(limit.limit, limit.seed)
    else:
        indices = data.spaced_indices(limit)
    return indices if shard is None else shard.part(indices)


def selection_info(limit: Limit, of: int) -> dict[str, Any]:
    """The header's entry for randomly selected inputs; none where they are evenly spaced."""
    if isinstance(limit, RandomSample) and limit.limit < of:
        return {"chosen": {"kind": "random", "seed": int(limit.seed)}}
    return {}


def groups(indices: Int64, size: int) -> Iterator[list[int]]:
    """The inputs in order, `size` at a time."""
    for start in range(0, len(indices), size):
        yield indices[start : start + size].tolist()


def unfinished(indices: Int64, size: int, done: set[int]) -> list[list[int]]:
    """The groups that are not completely recorded, each as a whole."""
    return [group for group in groups(indices, size) if not done.issuperset(group)]


def load_group(data: Inputs, examples: list[int]) -> Group:
    """The inputs at these indices, with their labels."""
    return Group(load_batch(data, examples), examples, labels_at(data, examples))


def prefetch(groups: Iterable[Group]) -> Iterator[Group]:
    """The same groups in the same order, each loaded by a thread while the one before is computed."""
    left = iter(groups)
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, left, None)
        while (group := coming.result()) is not None:
            coming = thread.submit(next, left, None)
            yield group


def load_batch(data: Inputs, indices: Sequence[int]) -> torch.Tensor:
    """The inputs at these indices, as the model takes them."""
    return to_tensor(data.batch(indices))
