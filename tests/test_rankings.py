"""Rankings as text: what is written is read, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest

from sparsecert.records import rankings


@pytest.mark.parametrize("classes", [2, 10, 36, 37, 120])
def test_what_is_written_is_read(classes: int) -> None:
    ranks = np.random.default_rng(classes).random((7, classes)).argsort(axis=1).astype(np.int16)
    ranks[[2, 6]] = 0
    text = rankings.to_text(ranks)
    assert np.array_equal(rankings.from_text(text, classes), ranks)
    assert text.split(" ")[2] == rankings.NO_OPINION


def test_classes_stand_from_first_to_last() -> None:
    assert rankings.to_text(np.array([[2, 0, 1], [0, 0, 0], [0, 1, 2]], dtype=np.int16)) == "120 - 012"
    assert np.array_equal(rankings.from_text("- -", 4), np.zeros((2, 4)))


@pytest.mark.parametrize(
    "text", ["", "012 ", "01 102", "0123 012", "011 012", "01x 012", "013 012", "0\u06612", "1,0,2"]
)
def test_what_is_no_ranking_of_three_classes_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"ranking|codec"):
        rankings.from_text(text, 3)


@pytest.mark.parametrize("change", ["", ",0", ",40", ",x", ",-1", ",999999"])
def test_numbers_that_are_no_ranking_are_refused(change: str) -> None:
    whole = ",".join(map(str, range(39)))
    assert rankings.from_text(whole + ",39", 40)[0, 39] == 39
    with pytest.raises(ValueError, match="ranking"):
        rankings.from_text(whole + change, 40)
