"""Sequence classifiers of transformers: a tiny BERT built from a config, with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sparsecert.errors import InputError
from sparsecert.inputs.words import PADDING
from sparsecert.schemes import Partition, Share
from sparsecert.smoothed import Smoothed

transformers = pytest.importorskip(
    "transformers", reason="transformers is not installed: pip install 'sparsecert[text]'"
)
from sparsecert.models.hugging_face import smoothed_text  # noqa: E402

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "fine", "film", "un", "##like", "##ly", "bad", "was"]


@pytest.fixture
def parts(tmp_path: Path) -> tuple[Any, Any]:
    """The model and the tokenizer."""
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY))
    tokenizer = transformers.BertTokenizer(vocab=str(tmp_path / "vocab.txt"))
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(VOCABULARY), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=24, num_labels=3, initializer_range=2.0,
    )  # fmt: skip
    return transformers.BertForSequenceClassification(config).eval(), tokenizer


def test_copies_are_scored_as_the_model_scores_the_masked_text(parts: tuple[Any, Any]) -> None:
    model, tokenizer = parts
    g, reader = smoothed_text(model, tokenizer, Share("0.5"))
    text = "a unlikely film was bad"
    inputs = torch.from_numpy(reader.batch([text]))
    masks = torch.tensor([[True, True, False, True, False], [False, False, True, False, False], [True] * 5])
    copies = g.encoding(inputs.expand(3, -1, -1), masks)
    with torch.no_grad():
        found = g.model(copies)
        for mask, scores in zip(masks.tolist(), found, strict=True):
            shown = " ".join(word if kept else "[MASK]" for word, kept in zip(text.split(), mask, strict=True))
            expected = model(**tokenizer(shown, return_tensors="pt")).logits[0]
            torch.testing.assert_close(scores, expected, rtol=1e-4, atol=1e-4)


def test_a_hidden_word_leaves_no_trace_whatever_its_pieces(parts: tuple[Any, Any]) -> None:
    g, reader = smoothed_text(*parts, Share("0.5"))
    assert reader.numbers("unlikely a")[:4].tolist() == [[8, 5], [9, PADDING], [10, PADDING], [PADDING, PADDING]]
    masks = torch.tensor([[True, False, True]])
    one, other = (torch.from_numpy(reader.batch([text])) for text in ("a unlikely film", "a bad film"))
    assert torch.equal(g.encoding(one, masks), g.encoding(other, masks))
    assert np.array_equal(reader.numbers("film unlikely")[:, 1], reader.numbers("un unlikely")[:, 1])


@pytest.mark.parametrize("scheme", [Share("0.3"), Partition(None, 3)], ids=str)
def test_texts_of_different_lengths_are_certified(scheme: Any, parts: tuple[Any, Any], tmp_path: Path) -> None:
    g, reader = smoothed_text(*parts, scheme)
    texts = torch.from_numpy(reader.batch(["a fine film", "bad", "a film was unlikely bad"]))
    settings = {} if isinstance(scheme, Partition) else {"n0": 10, "n": 50}
    found = g.certify(texts, **settings)
    assert found.units is not None
    assert found.units.tolist() == [3, 1, 5]
    assert g.metadata["class_names"] == ["LABEL_0", "LABEL_1", "LABEL_2"]
    g.save(tmp_path / "m.safetensors")
    again = Smoothed.load(tmp_path / "m.safetensors", smoothed_text(*parts, scheme)[0].model)
    assert again.certify(texts, **settings).radii.tolist() == found.radii.tolist()


def test_a_text_beyond_the_window_is_refused(parts: tuple[Any, Any]) -> None:
    g, reader = smoothed_text(*parts, Partition(None, 3))
    with pytest.raises(InputError, match="a text has 32 pieces, the model takes 24"):
        g.certify(torch.from_numpy(reader.batch(["a " * 30])))
    parts[1].mask_token = None
    with pytest.raises(InputError, match="has no mask token"):
        smoothed_text(*parts, Share("0.5"))
