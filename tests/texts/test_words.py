"""Words become numbers one by one, and hidden ones leave no trace."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from sparsecert.encodings import DropWords, MaskToken, WordEncoding, from_config
from sparsecert.errors import InputError
from sparsecert.inputs.words import MASK, MOST_WORDS, PADDING, UNKNOWN, Vocabulary, WordReader, plain_word, split
from sparsecert.schemes import Share

ENCODINGS: list[WordEncoding] = [MaskToken(40), MaskToken(40, mask=7), DropWords(40)]


class Letters:
    """A piece for each letter, so that words differ in how many they have."""

    def pieces(self, word: str) -> Sequence[int]:
        return [10 + ord(letter) - ord("a") for letter in word]


def test_the_units_of_a_text() -> None:
    assert split("Don't  stop,\tnow.\n") == ["Don't", "stop,", "now."]
    assert split("Don't stop,", "token") == ["Don", "'", "t", "stop", ","]
    assert [plain_word(word) for word in ('"Stop!"', "...", "U.S.", "-")] == ["stop", "...", "u.s", "-"]


def test_a_vocabulary_has_the_frequent_words_and_stems() -> None:
    found = Vocabulary.of(["Running runner, running", "runs b", "b b"], least=2)
    assert (found.words, found.stems) == (("b", "running"), ("b", "runni"))
    assert len(found) == 6
    assert found.pieces("b") == (2, 4)
    assert found.pieces("RUNNING!") == (3, 5)
    assert found.pieces("runnier") == (UNKNOWN, 5)
    assert found.pieces("other") == (UNKNOWN,)
    assert MASK not in {number for word in ("b", "x", "running") for number in found.pieces(word)}


def test_a_word_is_numbered_by_itself() -> None:
    """Whatever stands beside it: no hidden word can reach another one through merged pieces."""
    reader = WordReader(Letters(), pieces=3)
    alone = reader.numbers("cab")
    for text in ("a cab", "abcd cab", "zz  cab ", "x. cab"[3:]):
        assert np.array_equal(reader.numbers(text)[:, -1], alone[:, 0])
    assert reader.numbers("ab abcd").tolist() == [[10, 10], [11, 11], [PADDING, 12]]  # a long word is cut


def test_a_batch_is_padded() -> None:
    batch = WordReader(Letters(), pieces=1).batch(["a b c", "d"])
    assert batch.tolist() == [[[10, 11, 12]], [[13, PADDING, PADDING]]]


@pytest.mark.parametrize(
    ("text", "count"), [("", "0 words"), (" \n", "0 words"), ("a " * (MOST_WORDS + 1), "65,537 words")]
)
def test_texts_without_words_or_with_too_many_are_refused(text: str, count: str) -> None:
    with pytest.raises(InputError, match=f"{count}, and must have 1 to 65,536"):
        WordReader(Letters()).numbers(text)
    assert WordReader(Letters()).numbers("a " * 100).shape == (2, 100)


def test_a_unit_of_another_name_is_refused() -> None:
    with pytest.raises(InputError, match="unit must be word or token, got 'letter'"):
        WordReader(Letters(), "letter")


@pytest.mark.parametrize("encoding", ENCODINGS, ids=repr)
def test_hidden_words_leave_no_trace(encoding: WordEncoding) -> None:
    """Bit for bit, whatever words are hidden, of however many pieces."""
    random, reader = np.random.default_rng(0), WordReader(Letters(), pieces=3)
    words = ["a", "bc", "def", "z", "yx"]
    masks = Share("0.4").for_units(7).masks(0, 1, 12)[0]
    text = list(random.choice(words, 7))
    expected = encoding(torch.from_numpy(reader.batch([" ".join(text)] * 12)), masks)
    for _ in range(5):
        other = random.choice(words, 7)
        changed = [" ".join(np.where(mask, text, other)) for mask in masks.numpy()]
        assert torch.equal(encoding(torch.from_numpy(reader.batch(changed)), masks), expected)
        shown = [" ".join(np.where(mask, other, text)) for mask in masks.numpy()]
        differ = torch.from_numpy((masks.numpy() & (other != text)).any(axis=1))
        copies = encoding(torch.from_numpy(reader.batch(shown)), masks)
        assert torch.equal((copies != expected).flatten(1).any(dim=1), differ)


def test_what_a_copy_shows() -> None:
    inputs = torch.tensor([[[3, 4, 5, 6], [7, PADDING, 8, 9]]]).expand(2, -1, -1)
    masks = torch.tensor([[True, False, True, False], [False, False, False, True]])
    masked = [[[3, 0, 5, 0], [7, -1, 8, -1], [0, 1, 2, 3]], [[0, 0, 0, 6], [-1, -1, -1, 9], [0, 1, 2, 3]]]
    assert MaskToken(10)(inputs, masks).tolist() == masked
    dropped = [[[3, 5], [7, 8], [0, 2]], [[6, -1], [9, -1], [3, -1]]]
    assert DropWords(10)(inputs, masks).tolist() == dropped
    assert MaskToken(10)(inputs, masks[:1]).tolist()[0] == masked[0]
    assert DropWords(10)(inputs, masks[:1])[1].tolist() == dropped[0]


@pytest.mark.parametrize("encoding", ENCODINGS, ids=repr)
def test_an_encoding_survives_its_config(encoding: WordEncoding) -> None:
    found = from_config(encoding.config())
    assert found.config() == encoding.config()
    assert (found.channels(1), found.units((2, 9)).count, found.units((2, 9)).name) == (40, 9, "words")


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (torch.zeros(1, 2), "int64 .*batch, pieces, words"),
        (torch.zeros(1, 1, 2), "got torch.float32"),
        (torch.tensor([[[3, PADDING, 3]]]), "padding after the last one alone"),
        (torch.tensor([[[3, 3]], [[PADDING, PADDING]]]), "at least one word each"),
        (torch.tensor([[[3, PADDING], [3, 3]]]), "padding after the last one alone"),
        (torch.tensor([[[3, 40]]]), "numbered below 40"),
        (torch.tensor([[[3, -2]]]), "numbered below 40"),
    ],
)
def test_other_inputs_are_refused(inputs: torch.Tensor, message: str) -> None:
    with pytest.raises(InputError, match=message):
        DropWords(40).check_inputs(inputs)
    DropWords(40).check_inputs(torch.tensor([[[3, 39], [3, PADDING]], [[0, PADDING], [PADDING, PADDING]]]))
