"""Encodings of texts: hidden words become a mask token, or are dropped and leave their positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from sparsecert.encodings.encoding import Encoding
from sparsecert.errors import InputError, check_int
from sparsecert.inputs.units import Units
from sparsecert.inputs.words import MASK, PADDING
from sparsecert.registry import ENCODINGS

if TYPE_CHECKING:
    from sparsecert.datasets import Dataset
    from sparsecert.schemes import Scheme
    from sparsecert.training.recipe import Recipe

MOST_TOKENS = 1 << 31


class WordEncoding(Encoding):
    """Texts as int64[rows, pieces, words] (`inputs.words`): a unit is a word, with all of its pieces.

    A copy is int64[rows, pieces + 1, shown words]: the pieces of each word shown, then its position in the text;
    PADDING, in every channel, where a row shows fewer words than others. How many pieces a hidden word has is not
    shown. `vocabulary` is the number of different pieces.
    """

    takes_integers = True

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary = check_int("vocabulary", vocabulary, 1, MOST_TOKENS)

    @classmethod
    def for_training(cls, data: Dataset, recipe: Recipe, scheme: Scheme | None = None, **settings: Any) -> Encoding:
        raise InputError(f"encoding {ENCODINGS.name_of(cls)} is for texts; give --text, the column that holds them")

    def channels(self, channels: int) -> int:
        """A word is one of so many pieces: as many as a vector of zeros and a one would have channels."""
        return self.vocabulary

    def units(self, shape: Sequence[int]) -> Units:
        return Units("words", shape[-1])

    def count_units(self, inputs: torch.Tensor) -> list[int]:
        counts: list[int] = (inputs[:, 0] != PADDING).sum(dim=1).tolist()
        return counts

    def cut(self, inputs: torch.Tensor, units: int) -> torch.Tensor:
        return inputs[:, :, :units]

    def check_inputs(self, inputs: torch.Tensor) -> None:
        """Refuses what `inputs.words.WordReader` does not make: other numbers, or padding between words."""
        if inputs.ndim != 3 or inputs.dtype != torch.int64:
            found = f"{inputs.dtype} of shape {tuple(inputs.shape)}"
            raise InputError(f"texts must be int64 (batch, pieces, words), as WordReader.batch gives them, got {found}")
        words = inputs[:, 0] != PADDING
        after = inputs.movedim(1, 2)[~words]
        if not words[:, 0].all() or (words[:, 1:] & ~words[:, :-1]).any() or (after != PADDING).any():
            raise InputError("texts must have at least one word each, and padding after the last one alone")
        if not ((inputs >= PADDING) & (inputs < self.vocabulary)).all():
            raise InputError(
                f"words must be numbered below {self.vocabulary}; read the texts by the model's own reader"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(vocabulary={self.vocabulary})"


@ENCODINGS.register("mask-token")
class MaskToken(WordEncoding):
    """A hidden word becomes the one piece `mask`; every word keeps its position."""

    def __init__(self, vocabulary: int, mask: int = MASK) -> None:
        super().__init__(vocabulary)
        self.mask = check_int("mask", mask, 0, self.vocabulary - 1, "the vocabulary")

    def encode(self, inputs: torch.Tensor, retained: torch.Tensor) -> torch.Tensor:
        hidden = torch.full_like(inputs[:1, :, :1], PADDING)
        hidden[:, 0] = self.mask
        places = torch.arange(inputs.shape[2], device=inputs.device).expand(len(inputs), 1, -1)
        return torch.cat((torch.where(retained, inputs, hidden), places), dim=1)


@ENCODINGS.register("drop-words")
class DropWords(WordEncoding):
    """Hidden words are left out; the words that are shown move together and keep their positions in the text."""

    def encode(self, inputs: torch.Tensor, retained: torch.Tensor) -> torch.Tensor:
        shown = retained[:, 0].expand(len(inputs), -1)
        rows, places = shown.nonzero(as_tuple=True)  # in the order of the text
        slots = (shown.cumsum(dim=1) - 1)[rows, places]
        order = torch.full((len(inputs), int(slots.max()) + 1), PADDING, device=inputs.device)
        order[rows, slots] = places
        words = inputs.gather(2, order.clamp(min=0)[:, None].expand(-1, inputs.shape[1], -1))
        words = words.masked_fill((order == PADDING)[:, None], PADDING)
        return torch.cat((words, order[:, None]), dim=1)
