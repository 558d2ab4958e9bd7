"""Replaces words of a text by words of the vocabulary, greedily or by beam search.

A substitution search as in Ebrahimi, Rao, Lowd & Dou, "HotFlip: White-Box Adversarial Examples for Text Classification"
(ACL 2018): where the model has word vectors, their gradients propose the substitutions; otherwise they are random. Any
word of the vocabulary may stand anywhere, whatever it means: that is what certificates are for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from sparsecert.attacks.attack import Attack
from sparsecert.attacks.defenders import margins
from sparsecert.attacks.judge import Judge
from sparsecert.errors import InputError
from sparsecert.inputs.words import PADDING, WordReader
from sparsecert.registry import ATTACKS, Option
from sparsecert.schemes import ATTACK, FixedMasks
from sparsecert.smoothed import Smoothed
from sparsecert.votes.eval_mode import in_eval_mode

GUIDING_MASKS = 128  # of a scheme that draws its masks at random
UNFOOLED = 0.8  # the share of the time that is left after each word, about: how many it takes is not known


@ATTACKS.register("word-substitution")
@dataclass(frozen=True)
class WordSubstitution(Attack):
    """Changes one word after another. Of each of the `beam` best texts so far it tries `candidates` substitutions, half
    of them proposed by gradients, and keeps the texts that leave the true class the smallest lead. A beam of 1 is the
    greedy search.
    """

    options: ClassVar[tuple[Option, ...]] = (
        Option("--beam", int, "Texts that are kept at each step; 1: greedy.", least=1, default=4),
        Option("--candidates", int, "Substitutions tried of each text at each step.", least=1, default=64),
    )
    takes_words: ClassVar[bool] = True

    beam: int = 4
    candidates: int = 64

    def run(self, judge: Judge, which: torch.Tensor, generator: torch.Generator) -> None:
        smoothed = judge.defender.white_box
        if smoothed is None or not smoothed.encoding.takes_integers:
            raise InputError("word-substitution is for texts, and these inputs are none; use another attack")
        words = vocabulary_words(smoothed, judge.images.shape[1])
        for left, place in zip(reversed(range(len(which))), which.tolist(), strict=True):
            with judge.part(1, left):
                self._search(judge, place, words, smoothed, generator)

    def _search(
        self, judge: Judge, place: int, words: torch.Tensor, smoothed: Smoothed, generator: torch.Generator
    ) -> None:
        original, label = judge.images[place], int(judge.labels[place])
        texts = [original]
        for count in range(int(judge.most[place])):
            judge.did(1 - UNFOOLED**count)
            tried = torch.cat([self._tried(text, original, label, words, smoothed, generator) for text in texts])
            if not len(tried):
                return
            tried = torch.unique(tried, dim=0)
            of = torch.full((len(tried),), place)
            fooled, answers = judge.query(tried, of)
            if fooled.any():
                return
            order = judge.margins(answers.scores, of).argsort(stable=True)
            texts = [tried[row] for row in order[: self.beam].tolist()]

    def _tried(
        self,
        text: torch.Tensor,
        original: torch.Tensor,
        label: int,
        words: torch.Tensor,
        smoothed: Smoothed,
        generator: torch.Generator,
    ) -> torch.Tensor:
        """int64[tried, pieces, words]: the text with one more word replaced."""
        open_places = (text == original).all(dim=0).nonzero()[:, 0]
        chance = torch.randint(len(open_places) * len(words), (self.candidates,), generator=generator)
        gains = substitution_gains(smoothed, text, label, words)
        if gains is not None:
            best = gains[open_places].flatten().topk(min(self.candidates // 2, chance.numel())).indices.cpu()
            chance = torch.cat((best, chance[: self.candidates - len(best)]))
        places, chosen = open_places[chance // len(words)], words[chance % len(words)]
        tried = text.expand(len(chance), -1, -1).clone()
        tried[torch.arange(len(chance)), :, places] = chosen
        return tried[(tried != text).flatten(1).any(dim=1)]


def vocabulary_words(smoothed: Smoothed, pieces: int) -> torch.Tensor:
    """int64[words, pieces]: every word that the attack may use."""
    if "text" not in smoothed.metadata:
        found = torch.full((smoothed.encoding.channels(1), pieces), PADDING)
        found[:, 0] = torch.arange(len(found))
        return found
    known = smoothed.metadata["text"]["vocabulary"].split()
    numbers = WordReader.from_metadata(smoothed.metadata).numbers
    return torch.stack([torch.from_numpy(numbers(word))[:, 0] for word in known])


def substitution_gains(smoothed: Smoothed, text: torch.Tensor, label: int, words: torch.Tensor) -> torch.Tensor | None:
    """float[places, words]: by how much each substitution lowers the label's lead, to first order.

    The lead is in the mean probabilities of copies. None for a model without word vectors (an attribute `words`).
    """
    vectors = getattr(smoothed.model, "words", None)
    if not isinstance(vectors, nn.Embedding):
        return None
    masks = _masks(smoothed)
    copies = smoothed.encoding(text.to(smoothed.device).expand(len(masks), -1, -1), masks)
    kept: list[torch.Tensor] = []

    def keep(_module: nn.Module, _inputs: object, output: torch.Tensor) -> torch.Tensor:
        kept.append(output.detach().requires_grad_())
        return kept[-1]

    hook = vectors.register_forward_hook(keep)
    try:
        with in_eval_mode(smoothed.model), torch.enable_grad():
            shares = smoothed.model(copies).float().softmax(dim=1).mean(dim=0, keepdim=True)
            lead = margins(shares, torch.tensor([label], device=shares.device))
            (slopes,) = torch.autograd.grad(lead.sum(), kept[0])
    finally:
        hook.remove()
    at = copies[:, -1]
    shown = at != PADDING
    by_place = slopes.new_zeros(text.shape[1], slopes.shape[-1]).index_add_(0, at[shown], slopes[:, 0][shown])
    with torch.no_grad():
        of_words, own = (_summed(vectors, pieces.to(smoothed.device)) for pieces in (words, text.T))
        return (own * by_place).sum(dim=1, keepdim=True) - by_place @ of_words.T


def _summed(vectors: nn.Embedding, pieces: torch.Tensor) -> torch.Tensor:
    """float[words, width]: the sum of the vectors of each word's pieces."""
    summed: torch.Tensor = vectors(pieces.clamp(min=0)).masked_fill((pieces == PADDING)[..., None], 0.0).sum(dim=1)
    return summed


def _masks(smoothed: Smoothed) -> torch.Tensor:
    scheme = smoothed.scheme
    if isinstance(scheme, FixedMasks):
        return scheme.all_masks(smoothed.device)
    return scheme.masks(0, [0], range(ATTACK, ATTACK + GUIDING_MASKS), smoothed.device)[0]
