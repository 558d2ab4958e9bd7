"""Networks for texts: they score the words that a copy shows, at their positions (`encodings.words`)."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import dropout, relu

from sparsecert.inputs.words import PADDING
from sparsecert.models.transformers import Block
from sparsecert.registry import MODELS

WINDOW = 256  # positions that are told apart; later ones count as the last


class WordNetwork(nn.Module):
    """Word vectors, and the mean over the words shown: a row's padding changes nothing in its scores."""

    def __init__(self, vocabulary: int, classes: int, width: int, dropped: float) -> None:
        super().__init__()
        self.dropped = dropped
        self.words = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.words.weight, std=0.1)
        self.classify = nn.Linear(width, classes)

    def vectors(self, copies: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Float[rows, shown, width]: the sum of each word's pieces, 0 for padding; bool[rows, shown]: no padding."""
        pieces = copies[:, :-1]
        found = self.words(pieces.clamp(min=0)).masked_fill((pieces == PADDING)[..., None], 0.0).sum(dim=1)
        return dropout(found, self.dropped, self.training), copies[:, -1] != PADDING

    def forward(self, copies: torch.Tensor) -> torch.Tensor:
        """Scores of ablated copies: [rows, classes]."""
        vectors, shown = self.vectors(copies)
        found = self.read(vectors, copies[:, -1], shown).masked_fill(~shown[..., None], 0.0)
        scores: torch.Tensor = self.classify(found.sum(dim=1) / shown.sum(dim=1, keepdim=True))
        return scores

    def read(self, vectors: torch.Tensor, places: torch.Tensor, shown: torch.Tensor) -> torch.Tensor:
        """Float[rows, shown, width]: what is averaged; here the words themselves, in any order."""
        return vectors


class WordCNN(WordNetwork):
    """A bag of words, to which a convolution over each word shown and its neighbours adds."""

    def __init__(self, vocabulary: int, classes: int, width: int = 128, dropped: float = 0.3) -> None:
        super().__init__(vocabulary, classes, width, dropped)
        self.convolve = nn.Conv1d(width, width, 3, padding=1)

    def read(self, vectors: torch.Tensor, places: torch.Tensor, shown: torch.Tensor) -> torch.Tensor:
        return vectors + relu(self.convolve(vectors.transpose(1, 2))).transpose(1, 2)


class WordTransformer(WordNetwork):
    """A transformer on the words shown, each with an embedding of its position."""

    def __init__(
        self, vocabulary: int, classes: int, width: int = 128, depth: int = 2, heads: int = 4, dropped: float = 0.3
    ) -> None:
        super().__init__(vocabulary, classes, width, dropped)
        self.place = nn.Embedding(WINDOW, width)
        nn.init.normal_(self.place.weight, std=0.02)
        self.blocks = nn.ModuleList(Block(width, heads, dropped) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def read(self, vectors: torch.Tensor, places: torch.Tensor, shown: torch.Tensor) -> torch.Tensor:
        tokens = vectors + self.place(places.clamp(0, WINDOW - 1))
        for block in self.blocks:
            tokens = block(tokens, shown[:, None, None])
        normed: torch.Tensor = self.norm(tokens)
        return normed


@MODELS.register("bag-of-words")
def bag_of_words(channels: int, classes: int) -> nn.Module:
    """The mean of the vectors of the words shown, and a linear layer; `channels` is the size of the vocabulary."""
    return WordNetwork(channels, classes, width=64, dropped=0.3)


@MODELS.register("word-cnn")
def word_cnn(channels: int, classes: int) -> nn.Module:
    """A bag of words with a convolution of width 3; `channels` is the size of the vocabulary."""
    return WordCNN(channels, classes)


@MODELS.register("word-transformer")
def word_transformer(channels: int, classes: int) -> nn.Module:
    """A transformer of two blocks on the words shown; `channels` is the size of the vocabulary."""
    return WordTransformer(channels, classes)
