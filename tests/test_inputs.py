"""What a unit is, how many an input has and where they are: said once, by `Units`, for every kind of input."""

from __future__ import annotations

import numpy as np
import pytest

from sparsecert import datasets
from sparsecert.encodings import Grouped, NotANumber, NullChannels, ReplacedValues, blocks_of
from sparsecert.inputs import Units
from sparsecert.inputs.rows import Rows


@pytest.mark.parametrize(
    ("shape", "units"),
    [
        ((3, 4, 6), Units("pixels", 24, (4, 6))),
        ((7,), Units("features", 7)),
        ((2, 5), Units("units", 5)),
        ((1, 2, 3, 4), Units("units", 24)),
    ],
)
def test_units_by_the_shape_of_an_input(shape: tuple[int, ...], units: Units) -> None:
    assert Units.of(shape) == NullChannels().units(shape) == units


def test_images_and_rows_have_theirs() -> None:
    assert datasets.load("digits").units == Units("pixels", 64, (8, 8))
    labels = np.zeros(2, dtype=np.int64)
    assert Rows("t.csv", "all", np.zeros((2, 5)), labels, ("a",), np.arange(2), "").units == Units("features", 5)


def test_encodings_may_make_other_units_of_them() -> None:
    assert Grouped(NullChannels(), blocks_of(4, 6, 2, 2)).units((3, 4, 6)) == Units("units", 6, (2, 3))
    assert NotANumber([0, 0, 1, 2]).units((4,)) == Units("features", 3)
    assert ReplacedValues().units((3, 4, 6)) == Units("units", 72)
    assert ReplacedValues().units((1, 4, 6)) == Units("pixels", 24, (4, 6))
