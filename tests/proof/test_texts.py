"""Every substitution of words in every text of a tiny vocabulary: no answer that is certified is ever another one.

Through the whole of the package that a text goes through: lengths that differ within a batch, open schemes, both
encodings. The base classifier is a table drawn at random, of what a copy shows.
"""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import torch

from sparsecert.bounds import Interval
from sparsecert.certificates import corollary_1, corollary_2
from sparsecert.encodings import DropWords, MaskToken, WordEncoding
from sparsecert.inputs.words import padded
from sparsecert.procedures import Exact
from sparsecert.registry import RULES
from sparsecert.schemes import Partition, Scheme, Share
from sparsecert.smoothed import Smoothed
from tests.proof import slow

CLASSES, WORDS = 3, (2, 3, 4)
TEXTS = [text for length in range(1, 6) for text in product(WORDS, repeat=length)]
ENCODINGS: list[WordEncoding] = [MaskToken(5), DropWords(5)]
PARTITIONS = [
    Partition(None, 3),
    Partition(None, 4, seed=2),
    Partition(None, 2, 2, 1),
    Partition(None, 3, contiguous=True),
]


class Table:
    """Scores drawn at random for everything that a copy shows, mostly for one class."""

    def __init__(self, seed: int) -> None:
        self.chance, self.known = random.Random(seed), dict[bytes, list[float]]()
        self.sure = self.chance.choice([0.6, 0.8, 0.95])

    def __call__(self, copies: torch.Tensor) -> torch.Tensor:
        return torch.tensor([self.scores(copy[:, copy[-1] >= 0].numpy().tobytes()) for copy in copies])

    def scores(self, shown: bytes) -> list[float]:
        if shown not in self.known:
            usual = self.chance.random() < self.sure
            self.known[shown] = [2.0, 1.0, 0.0] if usual else self.chance.sample([0.0, 1.0, 2.0], CLASSES)
        return self.known[shown]


def _numbers(texts: list[tuple[int, ...]]) -> torch.Tensor:
    return torch.from_numpy(padded([np.array([text], dtype=np.int64) for text in texts]))


def _within(text: tuple[int, ...], radius: int) -> list[tuple[int, ...]]:
    """The texts of as many words that differ in at most `radius` of them."""
    same = (other for other in TEXTS if len(other) == len(text))
    return [other for other in same if sum(a != b for a, b in zip(text, other, strict=True)) <= radius]


@pytest.mark.parametrize("encoding", ENCODINGS, ids=repr)
@pytest.mark.parametrize("scheme", PARTITIONS, ids=str)
@pytest.mark.parametrize("rule", RULES)
def test_no_substitution_within_the_radius_changes_an_election(
    rule: str, scheme: Partition, encoding: WordEncoding
) -> None:
    radii = set[int]()
    for seed in range(3):
        found = Smoothed(Table(seed), scheme, encoding).certify(_numbers(TEXTS), Exact(rule))
        labels = dict(zip(TEXTS, found.labels.tolist(), strict=True))
        for text, radius in zip(TEXTS, found.radii.tolist(), strict=True):
            radii.add(radius)
            assert {labels[other] for other in _within(text, radius)} == {labels[text]}
    assert {0, 1} <= radii


@pytest.mark.parametrize("encoding", ENCODINGS, ids=repr)
@pytest.mark.parametrize("scheme", [Share("0.2"), Share("0.3"), Share("0.4")], ids=str)
def test_no_substitution_within_the_radius_changes_the_likeliest_class(scheme: Share, encoding: WordEncoding) -> None:
    """By both corollaries, from the true probabilities: all masks of each length are asked."""
    radii = set[int | None]()
    for seed in range(3):
        table = Table(seed)
        shares = {text: _shares(table, scheme, encoding, text) for text in TEXTS}
        for text, p in shares.items():
            second, first = sorted(p)[-2:]
            label, own = p.index(first), scheme.for_units(len(text))
            found = (
                corollary_1(Interval(label, first, 1 - first), own),
                corollary_2(Interval(label, first, second), own),
            )
            radii |= {*found}
            for radius in found:
                for other in [] if radius is None else _within(text, radius):
                    assert all(shares[other][label] > shares[other][j] for j in range(CLASSES) if j != label)
    assert {None, 0, 1} <= radii


def _shares(table: Table, scheme: Share, encoding: WordEncoding, text: tuple[int, ...]) -> list[Fraction]:
    masks = slow.uniform_masks(len(text), scheme.for_units(len(text)).retained)
    copies = encoding(_numbers([text]).expand(len(masks), -1, -1), torch.tensor(masks))
    votes = table(copies).argmax(dim=1).tolist()
    return [Fraction(votes.count(label), len(votes)) for label in range(CLASSES)]


@pytest.mark.parametrize("encoding", ENCODINGS, ids=repr)
@pytest.mark.parametrize("scheme", [Share("0.4"), Partition(None, 3), Partition(None, 3, contiguous=True)], ids=str)
def test_what_else_is_in_the_batch_changes_nothing(scheme: Scheme, encoding: WordEncoding) -> None:
    texts, samples = TEXTS[::7], None if isinstance(scheme, Partition) else 80
    settings = {} if samples is None else {"n0": 20, "n": samples}
    smoothed = Smoothed(Table(1), scheme, encoding)
    whole, predicted = smoothed.certify(_numbers(texts), **settings), smoothed.predict(_numbers(texts), n=samples)
    assert whole.units is not None
    assert predicted.units is not None
    assert whole.units.tolist() == predicted.units.tolist() == [len(text) for text in texts]
    for row, text in enumerate(texts):
        alone = smoothed.certify(_numbers([text]), examples=[row], **settings)
        assert (alone.labels[0], alone.radii[0]) == (whole.labels[row], whole.radii[row])
        assert alone.counts[0].tolist() == whole.counts[row].tolist()
        one = smoothed.predict(_numbers([text]), n=samples, examples=[row])
        assert (one.answers[0], one.counts[0].tolist()) == (predicted.answers[row], predicted.counts[row].tolist())
