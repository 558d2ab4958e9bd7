"""Which inputs a run has, cut into shards and groups."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sparsecert.errors import InputError, whole
from sparsecert.inputs import Inputs, to_tensor
from sparsecert.runs.questions import Group
from sparsecert.schemes.philox import key_of

CHUNK = 64  # shards are dealt out in chunks of so many inputs, which are whole groups of a fixed number of samples
MOST_INPUTS = 1 << 32  # an input's number is a word of the masks' generator

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Shard:
    """Part `index` of `of`, the first being 1: the parts of a run are disjoint and together are the run."""

    index: int
    of: int

    def __post_init__(self) -> None:
        if not 1 <= self.index <= self.of:
            raise InputError(f"shard must be I/N with 1 <= I <= N, got {self}")

    @classmethod
    def parse(cls, text: str) -> Shard:
        """The shard that a command line names, such as 2/8."""
        found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
        if found is None:
            raise InputError(f"shard must be I/N, for example 2/8 for the second of eight, got {text!r}")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.index}/{self.of}"

    def part(self, indices: Indices) -> Indices:
        """This shard's inputs: chunks dealt out in turn, smaller ones where there are too few for every shard."""
        if len(indices) < self.of:
            raise InputError(f"shard {self} was asked of {len(indices)} inputs; use at most as many shards as inputs")
        chunk = min(CHUNK, 1 << ((len(indices) // self.of).bit_length() - 1))
        mine: Indices = indices[np.arange(len(indices)) // chunk % self.of == self.index - 1]
        return mine


@dataclass(frozen=True)
class Drawn:
    """`limit` inputs drawn at random by `seed`, in place of evenly spaced ones (see `Dataset.drawn`)."""

    limit: int
    seed: int

    def __post_init__(self) -> None:
        whole("limit", self.limit, 1, MOST_INPUTS)
        key_of(self.seed)


Limit = int | Drawn | None  # so many evenly spaced inputs, or drawn ones; None: every input


def indices_of(data: Inputs, limit: Limit, shard: Shard | None = None) -> Indices:
    """The inputs of a run, or of a shard of it."""
    indices = data.random_indices(limit.limit, limit.seed) if isinstance(limit, Drawn) else data.spaced_indices(limit)
    return indices if shard is None else shard.part(indices)


def choice(limit: Limit, of: int) -> dict[str, Any]:
    """The fact of a run's header that says how its inputs were chosen of so many; none where they are evenly spaced."""
    if isinstance(limit, Drawn) and limit.limit < of:
        return {"chosen": {"kind": "random", "seed": int(limit.seed)}}
    return {}


def groups(indices: Indices, size: int) -> Iterator[list[int]]:
    """The inputs in their order, `size` at a time."""
    for start in range(0, len(indices), size):
        yield indices[start : start + size].tolist()


def unfinished(indices: Indices, size: int, done: set[int]) -> list[list[int]]:
    """The groups that are not wholly recorded, each of them whole."""
    return [group for group in groups(indices, size) if not done.issuperset(group)]


def group_of(data: Inputs, examples: list[int]) -> Group:
    """These inputs with their labels."""
    return Group(load_batch(data, examples), examples, data.labels[examples].tolist())


def one_ahead(groups: Iterable[Group]) -> Iterator[Group]:
    """The same groups in the same order, each made by a thread while the one before is computed with."""
    left = iter(groups)
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, left, None)
        while (group := coming.result()) is not None:
            coming = thread.submit(next, left, None)
            yield group


def load_batch(data: Inputs, indices: list[int]) -> torch.Tensor:
    """The inputs at these indices as a model is given them."""
    return to_tensor(data.batch(indices))
