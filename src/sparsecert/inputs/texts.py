"""Texts as inputs: a unit is a word, and inputs differ in how many they have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sparsecert.counts import Bool, Int64
from sparsecert.datasets.text_files import read_texts
from sparsecert.errors import InputError
from sparsecert.files import file_hash
from sparsecert.inputs import FileInputs, held_out, number_labels
from sparsecert.inputs.units import Units
from sparsecert.inputs.words import WordReader, padded


@dataclass(frozen=True, eq=False)
class Texts(FileInputs):
    """The texts of a file as `reader` numbers their words.

    `chosen` are the texts to certify: the held-out ones of the training file, all of any other. An input's index is
    that of its row in the file. `labels` is None for new texts, in a file without the target column.
    """

    name: str
    split: str
    texts: tuple[str, ...]
    labels: Int64 | None
    classes: tuple[str, ...]
    chosen: Int64
    sha256: str
    reader: WordReader
    notes: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: str | Path, metadata: Mapping[str, Any], reader: WordReader | None = None) -> Texts:
        """The texts of a file with the columns that a model's `metadata` name."""
        reader = WordReader.from_metadata(metadata) if reader is None else reader
        about, classes = metadata["text"], tuple(metadata["class_names"])
        file = read_texts(path, about["columns"], about["target"])
        labels = None if file.labels is None else number_labels(file.labels, classes, "file")
        sha256 = file_hash(path)
        same = sha256 == about["sha256"] and about["held_out"] > 0
        count = len(file.texts)
        outside = held_out_texts(count, about["held_out"], about["seed"]) if same else np.ones(count, dtype=np.bool_)
        split = "held-out" if same else "all"
        return cls(Path(path).name, split, file.texts, labels, classes, np.flatnonzero(outside), sha256, reader)

    @cached_property
    def numbers(self) -> list[Int64]:
        """Of each text, int64[pieces, words]; refuses a text without words."""
        return [self.reader.numbers(text, f"text {row + 1} of {self.name}") for row, text in enumerate(self.texts)]

    @property
    def units(self) -> Units:
        return Units("words", self.shape[-1])

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the longest text."""
        return self.reader.pieces, max(words.shape[1] for words in self.numbers)

    def __len__(self) -> int:
        return len(self.texts)

    def batch(self, indices: Sequence[int] | Int64) -> Int64:
        return padded([self.numbers[index] for index in indices])


def held_out_texts(texts: int, count: float, seed: int) -> Bool:
    """bool[texts]: random texts that are held out of training: a share of them, or so many where that is 1 or more."""
    number = round(texts * count) if count < 1 else round(count)
    if count < 0 or not 0 <= number < texts:
        raise InputError(
            f"held-out must be a share or a number that leaves texts to train on, got {count} of {texts:,}"
        )
    return held_out(texts, number, seed)
