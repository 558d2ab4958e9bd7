"""Networks for texts: a copy's scores are its own, whatever it is batched with, and texts of any length are taken."""

from __future__ import annotations

import pytest
import torch

from sparsecert import models
from sparsecert.encodings import DropWords, MaskToken
from sparsecert.inputs.words import PADDING
from sparsecert.models.words import WINDOW
from sparsecert.schemes import Share

NAMES = "bag-of-words", "word-cnn", "word-transformer"


@pytest.mark.parametrize("name", NAMES)
def test_padding_changes_no_score(name: str) -> None:
    model = models.build(name, 30, 3, seed=2).eval()
    copies = torch.tensor([[[3, 4, 5], [6, 7, PADDING], [0, 2, 9]]])
    padded = torch.nn.functional.pad(copies, (0, 4), value=PADDING)
    torch.testing.assert_close(model(padded), model(copies))
    other = copies.clone()
    other[0, 1, 1] = 8
    assert not torch.allclose(model(other), model(copies))


def test_positions_matter_to_the_transformer_alone() -> None:
    here = torch.tensor([[[3, 4], [0, 1]]])
    there = torch.tensor([[[3, 4], [0, 5]]])
    differ = {name: not torch.equal(*(models.build(name, 30, 3, 2).eval()(x) for x in (here, there))) for name in NAMES}
    assert differ == {"bag-of-words": False, "word-cnn": False, "word-transformer": True}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("masked", [False, True])
def test_texts_beyond_the_window(name: str, masked: bool) -> None:
    model, encoding = models.build(name, 30, 2).eval(), (MaskToken if masked else DropWords)(30)
    text = torch.randint(2, 30, (1, 2, WINDOW + 50))
    mask = Share("0.1").for_units(WINDOW + 50).masks(0, 1, 1)[0]
    assert torch.isfinite(model(encoding(text, mask))).all()
