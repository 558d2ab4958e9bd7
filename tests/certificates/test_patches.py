"""Patches: every position, every way to vote."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from sparsecert.certificates.patches import PerturbedPatch
from sparsecert.certificates.plurality import count_labels
from sparsecert.errors import InputError
from sparsecert.schemes import Bands, Blocks, FixedMasks
from tests.helpers import one_plurality, one_run_off


def _met(scheme: FixedMasks, height: int, width: int, side: int) -> list[list[int]]:
    """Of each position, the masks that retain a pixel of the patch: pixel by pixel."""
    found = []
    for top, left in product(range(height - side + 1), range(width - side + 1)):
        pixels = [y * width + x for y in range(top, top + side) for x in range(left, left + side)]
        found.append([number for number, mask in enumerate(scheme.table) if any(mask[pixel] for pixel in pixels)])
    return found


def _true_side(
    labels: np.ndarray[tuple[int, ...], np.dtype[np.int64]], scheme: FixedMasks, height: int, width: int
) -> int:
    """Of two classes: the worst is that all masks that are met vote for the other one, or for the winner."""
    label = count_labels(labels, 2).argmax()
    for side in range(1, min(height, width) + 1):
        for met in _met(scheme, height, width, side):
            changed = labels.copy()
            changed[met] = 1 - label
            if count_labels(changed, 2).argmax() != label:
                return side - 1
    return min(height, width)


@pytest.mark.parametrize(
    ("scheme", "height", "width"),
    [(Blocks(5, 6, 2), 5, 6), (Blocks(6, 6, 1), 6, 6), (Bands(4, 8, 2), 4, 8), (Bands(8, 4, 1, rows=True), 8, 4)],
    ids=str,
)
def test_the_side_is_the_largest_that_is_true(scheme: FixedMasks, height: int, width: int) -> None:
    random, adversary, seen = np.random.default_rng(0), PerturbedPatch(scheme.table, height, width), set()
    for _ in range(40):
        labels = (random.random(len(scheme.table)) < random.random()).astype(np.int64)
        found = one_plurality(labels, 2, adversary)
        assert found.label == count_labels(labels, 2).argmax()
        assert found.radius == _true_side(labels, scheme, height, width)
        ranks = np.stack((labels, 1 - labels), axis=1)
        assert one_run_off(ranks, adversary) == found  # of two classes both go on
        seen.add(found.radius)
    assert len(seen) > 1


@pytest.mark.parametrize(("size", "side"), [(1, 1), (2, 1), (2, 3), (3, 2)])
def test_a_patch_meets_as_many_blocks_and_bands_as_it_should(size: int, side: int) -> None:
    blocks = PerturbedPatch(Blocks(9, 8, size).table, 9, 8).met(side)
    assert blocks.shape == ((9 - side + 1) * (8 - side + 1), 72)
    assert (blocks.sum(axis=1) == (size + side - 1) ** 2).all()
    assert (PerturbedPatch(Bands(9, 8, size).table, 9, 8).met(side).sum(axis=1) == size + side - 1).all()
    assert (PerturbedPatch(Bands(9, 8, size, rows=True).table, 9, 8).met(side).sum(axis=1) == size + side - 1).all()
    for position, met in enumerate(_met(Blocks(9, 8, size), 9, 8, side)):
        assert np.flatnonzero(blocks[position]).tolist() == met


def test_what_is_no_image_is_refused() -> None:
    with pytest.raises(InputError, match="3 x 3 pixels"):
        PerturbedPatch(np.ones((2, 8), dtype=bool), 3, 3)


def test_costs_are_added_up_exactly_as_far_as_floats_can() -> None:
    """For one set of costs and for arrays of them: of three bands, one or two neighbours are met."""
    adversary, random = PerturbedPatch(Bands(2, 3, 1).table, 2, 3), np.random.default_rng(1)
    for shape in ((), (4,), (2, 2), (3, 1, 2)):
        costs = random.integers(0, 1 << 21, (*shape, 3)) * 2 + 1
        pairs = np.maximum(costs[..., 0] + costs[..., 1], costs[..., 1] + costs[..., 2])
        assert adversary.damage(costs, 1).tolist() == costs.max(axis=-1).tolist()
        np.testing.assert_array_equal(adversary.damage(costs, 2), pairs)
    assert adversary.damage(np.array([1, (1 << 24) - 2, 1]), 2) == (1 << 24) - 1
    for wrong in ([1, 1 << 24, 0], [[0, 0, 1], [1, 1, (1 << 24) - 1]], [[[1 << 24, 1, 0]], [[0, 0, 0]]]):
        with pytest.raises(ValueError, match="costs must add up to at most 16777216"):
            adversary.damage(np.array(wrong), 1)
