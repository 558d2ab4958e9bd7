"""From texts to numbers, word by word: the number of a word depends on that word alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from sparsecert.counts import Int64
from sparsecert.errors import InputError

PADDING = -1  # after the last word of a text that is shorter than others of its batch, or piece of a word
MASK, UNKNOWN = 0, 1  # the numbers before those of the vocabulary
WORD, TOKEN = "word", "token"  # what a unit is
SPLITS = {WORD: re.compile(r"\S+"), TOKEN: re.compile(r"\w+|[^\w\s]")}
STEM = 5  # letters
MOST_WORDS = 1 << 16
EDGES = re.compile(r"^\W+|\W+$")


class Tokenizer(Protocol):
    """Numbers the pieces of one word."""

    def pieces(self, word: str) -> Sequence[int]:
        """At least one number, at least 0; a function of the word alone, so that no hidden word reaches another."""


@dataclass(frozen=True)
class Vocabulary:
    """The words of the training texts by number, from 2 on, then their stems; MASK is 0, any other word is UNKNOWN.

    A word is two pieces: itself, and its first letters, which it shares with related words and rare ones with known
    ones. Case is ignored, and punctuation at the ends of a word where the word has letters or digits.
    """

    words: tuple[str, ...]
    stems: tuple[str, ...] = ()

    @classmethod
    def of(cls, texts: Iterable[str], unit: str = WORD, least: int = 2) -> Vocabulary:
        """The words and stems that occur at least `least` times, the most frequent first."""
        words = Counter(plain_word(word) for text in texts for word in split(text, unit))
        stems = Counter[str]()
        for word, count in words.items():
            stems[word[:STEM]] += count
        return cls(*(tuple(_frequent(counts, least)) for counts in (words, stems)))

    def __len__(self) -> int:
        return len(self.words) + len(self.stems) + 2

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words, start=2)}

    @cached_property
    def stem_numbers(self) -> dict[str, int]:
        return {stem: number for number, stem in enumerate(self.stems, start=2 + len(self.words))}

    def pieces(self, word: str) -> tuple[int, ...]:
        plain = plain_word(word)
        stem = self.stem_numbers.get(plain[:STEM])
        return self.numbers.get(plain, UNKNOWN), *(() if stem is None else (stem,))


def _frequent(counts: Counter[str], least: int) -> list[str]:
    return sorted((one for one, count in counts.items() if count >= least), key=lambda one: (-counts[one], one))


@dataclass(frozen=True)
class WordReader:
    """Reads texts as int64[pieces, words]: a column for each unit of the text, PADDING below its last piece.

    unit: "word", whatever stands between spaces, or "token": a run of letters and digits, or any other sign. A word of
    more than `pieces` pieces is cut, by itself.
    """

    tokenizer: Tokenizer
    unit: str = WORD
    pieces: int = 2

    def __post_init__(self) -> None:
        split("", self.unit)  # refuses a unit of another name

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any]) -> WordReader:
        """The reader of a model that `sparsecert train` has trained on texts."""
        about = metadata.get("text")
        if about is None:
            raise InputError("the model was not trained on texts; use images, or a table")
        return cls(Vocabulary(*(tuple(about[name].split()) for name in ("vocabulary", "stems"))), about["unit"])

    def numbers(self, text: str, name: str = "the text") -> Int64:
        """int64[pieces, words] of one text; refuses one without words, or with too many."""
        words = split(text, self.unit)
        if not 1 <= len(words) <= MOST_WORDS:
            remedy = "leave it out" if not words else "cut it into shorter ones"
            raise InputError(f"{name} has {len(words):,} words, and must have 1 to {MOST_WORDS:,}; {remedy}")
        found: Int64 = np.full((self.pieces, len(words)), PADDING, dtype=np.int64)
        for place, word in enumerate(words):
            own = list(self.tokenizer.pieces(word))[: self.pieces]
            found[: len(own), place] = own
        return found

    def batch(self, texts: Sequence[str]) -> Int64:
        """int64[b, pieces, words of the longest text]."""
        return padded([self.numbers(text, f"text {number}") for number, text in enumerate(texts)])


def split(text: str, unit: str = WORD) -> list[str]:
    """The units of a text."""
    if unit not in SPLITS:
        raise InputError(f"unit must be {' or '.join(SPLITS)}, got {unit!r}")
    return SPLITS[unit].findall(text)


def plain_word(word: str) -> str:
    """In lower case, without punctuation at its ends unless it is nothing else."""
    lower = word.lower()
    return EDGES.sub("", lower) or lower


def padded(texts: Sequence[Int64]) -> Int64:
    """Texts of int64[pieces, words] as one batch, with PADDING after the last word of each."""
    longest = max(text.shape[1] for text in texts)
    return np.stack([np.pad(text, ((0, 0), (0, longest - text.shape[1])), constant_values=PADDING) for text in texts])
