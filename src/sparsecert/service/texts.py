"""Parses texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from sparsecert.errors import InputError
from sparsecert.inputs.words import WordReader
from sparsecert.service.parsing import short_repr


@dataclass(frozen=True, eq=False)
class TextParser:
    """Parses texts of any number of words: int64[1, pieces, words]."""

    reader: WordReader
    names = None
    categories = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a text of one word."""
        return self.reader.pieces, 1

    def from_text(self, text: Any) -> torch.Tensor:
        if not isinstance(text, str):
            raise InputError(f"text must be a string, got {short_repr(text)}")
        return torch.from_numpy(self.reader.numbers(text))[None]

    def from_values(self, values: Any) -> torch.Tensor:
        raise InputError("this model takes texts, not numbers, rows or images; send text")

    from_row = from_file = from_base64 = from_values
