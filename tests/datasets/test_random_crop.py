from __future__ import annotations

import math

import numpy as np
import pytest

from sparsecert.datasets.random_crop import Crop, draw
from sparsecert.errors import InputError


@pytest.mark.parametrize("size", [(1, 1), (1, 90), (90, 1), (7, 5), (320, 240), (224, 224)])
def test_crops_lie_inside(size: tuple[int, int]) -> None:
    width, height = size
    for index in range(200):
        crop = draw(width, height, 0, 0, index)
        assert crop.left >= 0 <= crop.top
        assert 1 <= crop.width <= width - crop.left
        assert 1 <= crop.height <= height - crop.top


def test_area_aspect_and_flip_have_the_stated_laws() -> None:
    crops = [draw(10_000, 10_000, 1, 2, index) for index in range(4_000)]
    area = np.array([c.width * c.height / 1e8 for c in crops])
    aspect = np.log([c.width / c.height for c in crops])
    assert area.min() == pytest.approx(0.08, abs=0.002)
    assert 0.97 < area.max() <= 1
    assert np.abs(aspect).max() <= math.log(4 / 3) + 1e-3
    # Log-uniform on an interval symmetric about 0; a rectangle's fit is symmetric under swapping its sides.
    assert abs(aspect.mean()) < 5 * aspect.std() / math.sqrt(len(crops))
    # Every area below 3/4 fits at the first try, so areas below it are uniform: their mean is (0.08 + 0.75) / 2.
    small = area[area < 0.75]
    assert abs(small.mean() - 0.415) < 5 * small.std() / math.sqrt(len(small))
    flips = sum(c.flip for c in crops)
    assert abs(flips - 2_000) < 5 * math.sqrt(1_000)


def test_each_argument_changes_the_draw() -> None:
    draws = {draw(500, 400, *key) for key in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]}
    assert len(draws) == 4
    assert draw(500, 400, 3, 1, 4) == draw(500, 400, 3, 1, 4)


def test_nothing_fits_a_strip_so_its_centre_is_taken() -> None:
    wide, tall = draw(3_000, 30, 0, 0, 0), draw(30, 3_000, 0, 0, 0)
    assert wide == Crop(1_480, 0, 40, 30, wide.flip)
    assert tall == Crop(0, 1_480, 30, 40, tall.flip)


@pytest.mark.parametrize(("seed", "epoch"), [(-1, 0), (0, -1)])
def test_negative_keys_are_refused(seed: int, epoch: int) -> None:
    with pytest.raises(InputError, match=f"got seed {seed} and epoch {epoch}"):
        draw(10, 10, seed, epoch, 0)
