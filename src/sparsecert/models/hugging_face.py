"""Hugging Face sequence classifiers on ablated texts, through their tokenizer and mask token.

    model = AutoModelForSequenceClassification.from_pretrained(...)
    tokenizer = AutoTokenizer.from_pretrained(...)
    g, reader = smoothed_text(model, tokenizer, Share("0.1"))
    g.certify(torch.from_numpy(reader.batch(["a text", "another one"])))

Fine-tune the model on masked texts first, or few of its votes will be right: `training.texts.fit` takes `g.model`.
Needs transformers: pip install 'sparsecert[text]'.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import nn

from sparsecert.encodings import MaskToken
from sparsecert.errors import InputError
from sparsecert.inputs.words import PADDING, WORD, WordReader
from sparsecert.schemes import Scheme
from sparsecert.smoothed import Smoothed

PIECES = 8  # of a word; a longer one is cut


class WordPieces:
    """A tokenizer asked for one word at a time, so that no piece depends on a neighbour of its word."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.pieces = lru_cache(maxsize=1 << 16)(self._pieces)

    def _pieces(self, word: str) -> Sequence[int]:
        """As within a text: after a space, which some tokenizers make part of the word."""
        found: list[int] = self.tokenizer(f" {word}", add_special_tokens=False)["input_ids"]
        return tuple(found) or (int(self.tokenizer.unk_token_id),)


class SequenceClassifier(nn.Module):
    """Scores the copies of `MaskToken` by a sequence classifier: the pieces of each row, between its special tokens.

    A row is padded behind an attention mask. A hidden word is one mask token whatever it is, so positions depend on the
    words shown and the mask alone. Refuses rows beyond the model's window.
    """

    def __init__(self, model: nn.Module, tokenizer: Any) -> None:
        super().__init__()
        self.model = model
        self.before, self.after = special_tokens(tokenizer)
        self.padding = int(tokenizer.pad_token_id or 0)
        window = getattr(model.config, "max_position_embeddings", None)
        self.window: int | None = min(filter(None, (window, _stated(tokenizer.model_max_length))), default=None)

    def forward(self, copies: torch.Tensor) -> torch.Tensor:
        """Scores of ablated copies: [rows, classes]."""
        pieces = copies[:, :-1].transpose(1, 2).flatten(1)
        shown = pieces != PADDING
        counts = shown.sum(dim=1)
        most, ends = int(counts.max()), len(self.before) + len(self.after)
        if self.window is not None and most + ends > self.window:
            raise InputError(
                f"a text has {most + ends} pieces, the model takes {self.window}; cut it into shorter ones"
            )
        ids = pieces.new_full((len(pieces), most + ends), self.padding)
        ids[:, : len(self.before)] = pieces.new_tensor(self.before)
        rows, _ = shown.nonzero(as_tuple=True)
        slots = (shown.cumsum(dim=1) - 1)[shown] + len(self.before)
        ids[rows, slots] = pieces[shown]
        every = torch.arange(len(pieces), device=pieces.device)
        for place, token in enumerate(self.after):
            ids[every, counts + len(self.before) + place] = token
        attended = torch.arange(ids.shape[1], device=ids.device) < (counts + ends)[:, None]
        scores: torch.Tensor = self.model(input_ids=ids, attention_mask=attended.long()).logits
        return scores


def special_tokens(tokenizer: Any) -> tuple[list[int], list[int]]:
    """What the tokenizer puts before and after a text."""
    text = str(tokenizer.mask_token)
    plain, whole = (tokenizer(text, add_special_tokens=with_them)["input_ids"] for with_them in (False, True))
    start = next(at for at in range(len(whole)) if whole[at : at + len(plain)] == plain)
    return list(whole[:start]), list(whole[start + len(plain) :])


def smoothed_text(
    model: nn.Module, tokenizer: Any, scheme: Scheme, *, unit: str = WORD, pieces: int = PIECES
) -> tuple[Smoothed, WordReader]:
    """The smoothed classifier of a sequence classifier, and the reader of its texts; `scheme` is an open one."""
    if getattr(tokenizer, "mask_token_id", None) is None:
        raise InputError("the tokenizer has no mask token to show hidden words by; set tokenizer.mask_token")
    vocabulary = max(len(tokenizer), int(getattr(model.config, "vocab_size", 0)))
    encoding = MaskToken(vocabulary, int(tokenizer.mask_token_id))
    wrapped = SequenceClassifier(model, tokenizer)
    names = [str(name) for _, name in sorted(getattr(model.config, "id2label", {}).items())]
    smoothed = Smoothed(wrapped, scheme, encoding, metadata={"class_names": names} if names else None)
    return smoothed, WordReader(WordPieces(tokenizer), unit, pieces)


def _stated(length: Any) -> int | None:
    """The tokenizer's own limit; a huge number stands for none."""
    return int(length) if isinstance(length, int) and length < 1 << 30 else None
