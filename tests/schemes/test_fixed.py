"""Fixed sets of masks: covering, balanced, spread out, and drawn from evenly."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from sparsecert.errors import InputError
from sparsecert.schemes import (
    DELTA_BITS,
    TRAINING,
    Bands,
    Blocks,
    FixedMasks,
    Grid,
    Lattice,
    Partition,
    RandomValues,
    Scheme,
    Spread,
    Uniform,
    from_config,
)

SETS: list[FixedMasks] = [
    Partition(units=12, parts=4),
    Partition(units=11, parts=4, rounds=3, seed=7),
    Partition(units=5, parts=5),
    Partition(units=6, parts=1, rounds=2),
    Lattice(4, 4, 4),
    Lattice(4, 4, 4, rounds=2),
    Lattice(3, 5, 4),
    Lattice(1, 9, 3),
    Spread(3, 4, 5),
]
LARGE: list[FixedMasks] = [
    Partition(784, 28, rounds=4),
    Lattice(28, 28, 28, rounds=4),
    Lattice(32, 32, 40),
    Spread(28, 28, 60),
]


@pytest.mark.parametrize("scheme", [*SETS, *LARGE, Bands(5, 7, 3), Blocks(4, 6, 3)], ids=str)
def test_the_largest_mask_is_as_large_as_the_set_says(scheme: FixedMasks) -> None:
    assert scheme.retained == max(sum(mask) for mask in scheme.table.tolist())


def _rounds(scheme: FixedMasks) -> list[np.ndarray[tuple[int, ...], np.dtype[np.bool_]]]:
    return np.split(scheme.table, getattr(scheme, "rounds", 1))


@pytest.mark.parametrize("scheme", SETS + LARGE, ids=str)
def test_the_masks_of_a_round_are_a_partition_into_equal_parts(scheme: FixedMasks) -> None:
    for masks in _rounds(scheme):
        assert masks.shape == (scheme.parts, scheme.units)  # type: ignore[attr-defined]
        assert (masks.sum(axis=0) == 1).all()
        sizes = masks.sum(axis=1)
        assert sizes.max() - sizes.min() <= 1
        assert sizes.min() >= 1


@pytest.mark.parametrize("scheme", LARGE[:2], ids=str)
def test_rounds_are_different_partitions(scheme: FixedMasks) -> None:
    """Two units that are together in one round are seldom together in the next."""
    together = [masks.T.astype(int) @ masks for masks in _rounds(scheme)]
    for one, other in combinations(together, 2):
        assert (one != other).any()


@pytest.mark.parametrize(("scheme", "times"), [(Blocks(4, 5, 2), 4), (Bands(3, 5, 2), 2), (Bands(5, 3, 2, True), 2)])
def test_every_pixel_is_in_as_many_blocks_or_bands(scheme: FixedMasks, times: int) -> None:
    assert (scheme.table.sum(axis=0) == times).all()
    assert len({mask.tobytes() for mask in scheme.table}) == len(scheme.table)


def test_what_a_block_and_a_band_retain() -> None:
    assert Blocks(3, 4, 2).table[5].reshape(3, 4).astype(int).tolist() == [[0, 0, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0]]
    assert Blocks(3, 4, 2).table[11].reshape(3, 4).astype(int).tolist() == [[1, 0, 0, 1], [0, 0, 0, 0], [1, 0, 0, 1]]
    assert Bands(2, 4, 2).table[3].reshape(2, 4).astype(int).tolist() == [[1, 0, 0, 1]] * 2
    assert Bands(3, 2, 1, rows=True).table[1].reshape(3, 2).astype(int).tolist() == [[0, 0], [1, 1], [0, 0]]
    with pytest.raises(InputError, match="use Bands"):
        Blocks(224, 224, 12)


@pytest.mark.parametrize("scheme", SETS, ids=str)
def test_delta_is_at_least_the_share_of_masks_that_any_units_meet(scheme: FixedMasks) -> None:
    """Every set of units; of a single partition, delta is that share."""
    count = len(scheme.table)
    for rho in range(scheme.units + 1):
        met = max(
            int(scheme.table[:, list(units)].any(axis=1).sum()) for units in combinations(range(scheme.units), rho)
        )
        assert Fraction(met, count) <= scheme.delta(rho) <= 1
        if getattr(scheme, "rounds", 1) == 1:
            assert scheme.delta(rho) == Fraction(met, count)
    assert scheme.delta(scheme.units + 5) == 1


@pytest.mark.parametrize("scheme", SETS + LARGE, ids=str)
def test_the_table_of_deltas_is_never_below(scheme: FixedMasks) -> None:
    table = scheme.deltas
    for rho, entry in enumerate(table):
        exact = scheme.delta(rho) * (1 << DELTA_BITS)
        assert exact <= entry < exact + 1
    assert 2 * table[-1] >= 1 << DELTA_BITS
    assert all(2 * entry < 1 << DELTA_BITS for entry in table[:-1])


@pytest.mark.parametrize("scheme", SETS, ids=str)
def test_drawn_masks_are_those_of_the_set_each_as_often(scheme: FixedMasks) -> None:
    drawn = scheme.masks(3, range(4), range(TRAINING, TRAINING + 1_500)).flatten(0, 1).numpy()
    known = {mask.tobytes(): 0 for mask in scheme.table}
    for mask in drawn:
        known[mask.tobytes()] += 1
    copies = [sum((other == mask).all() for other in scheme.table) for mask in scheme.table]
    expected = {mask.tobytes(): 6_000 * many / len(copies) for mask, many in zip(scheme.table, copies, strict=True)}
    if len(known) > 1:
        assert chisquare(list(known.values()), [expected[key] for key in known]).pvalue > 1e-6
    assert torch.equal(scheme.masks(3, [2], [TRAINING + 7])[0, 0], torch.from_numpy(drawn[2 * 1_500 + 7]))


@pytest.mark.parametrize("scheme", [*SETS, *LARGE, Blocks(6, 5, 3), Bands(4, 7, 2), Bands(4, 7, 2, True)], ids=str)
def test_a_scheme_is_built_again_from_its_config(scheme: FixedMasks) -> None:
    again = from_config(scheme.config())
    assert again == scheme
    assert isinstance(again, FixedMasks)
    assert np.array_equal(again.table, scheme.table)
    assert torch.equal(again.all_masks(), torch.from_numpy(scheme.table.copy()))


def _spread(mask: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], width: int) -> int:
    places = [divmod(int(unit), width) for unit in np.flatnonzero(mask)]
    return min((a - c) ** 2 + (b - d) ** 2 for (a, b), (c, d) in combinations(places, 2))


@pytest.mark.parametrize(("side", "parts", "least"), [(4, 4, 4), (6, 6, 5), (10, 10, 10), (28, 28, 29), (32, 64, 65)])
def test_no_two_pixels_of_a_lattice_mask_are_near_each_other(side: int, parts: int, least: int) -> None:
    assert min(_spread(mask, side) for mask in Lattice(side, side, parts).table) == least


def test_every_spread_mask_has_its_share_of_the_centre() -> None:
    """Of each ring, counted in deals of as many pixels as there are parts, one at most; and none are neighbours."""
    y, x = np.divmod(np.arange(784), 28)
    outwards = np.argsort((2 * y - 27) ** 2 + (2 * x - 27) ** 2, kind="stable")
    for parts in (28, 60, 160):
        table = Spread(28, 28, parts).table[:, outwards]
        for first in range(0, 784, parts):
            assert (table[:, first : first + parts].sum(axis=1) <= 1).all()
        assert min(_spread(mask, 28) for mask in Spread(28, 28, parts).table) >= 5


def test_a_grid_retains_the_image_at_a_lower_resolution() -> None:
    scheme = Grid(5, 7, 3)
    pixels = np.arange(35).reshape(5, 7)
    for number, mask in enumerate(scheme.table):
        top, left = divmod(number, 3)
        assert np.array_equal(pixels[mask.reshape(5, 7)], pixels[top::3, left::3].ravel())
    assert (scheme.table.sum(axis=0) == 1).all()


def test_a_partition_depends_on_its_seed_and_on_nothing_else() -> None:
    """The second of these was computed once and must never change: records name a scheme by its config."""
    assert not np.array_equal(Partition(40, 5).table, Partition(40, 5, seed=1).table)
    assert Partition(8, 2).table[0].nonzero()[0].tolist() == [1, 4, 6, 7]


def test_one_mask_may_retain_everything() -> None:
    for scheme in (Grid(2, 3, 1), Spread(2, 3, 1), Lattice(2, 3, 1), Partition(6, 1)):
        assert scheme.table.tolist() == [[True] * 6]


def test_what_cannot_be_is_refused() -> None:
    for wrong in (
        lambda: Partition(3, 4),
        lambda: Partition(3, 0),
        lambda: Lattice(4, 4, 17),
        lambda: Partition(4, 2, 0),
        lambda: Grid(4, 3, 4),
        lambda: Grid(4, 3, 0),
        lambda: Spread(4, 3, 0),
        lambda: Spread(4, 3, 13),
        lambda: Spread(40, 40, 1025),
    ):
        with pytest.raises(InputError):
            wrong()
    with pytest.raises(InputError, match="lattice partitions into 2 parts"):
        _ = Lattice(4, 4, 2, rounds=50).table


@pytest.mark.parametrize(("height", "width"), [(6, 6), (5, 7), (7, 4)])
def test_a_patch_meets_the_same_share_of_blocks_and_bands_wherever_it_is(height: int, width: int) -> None:
    """By counting, at every place of every patch, also where it meets all."""
    least, met_all = min(height, width), 0
    for size in range(1, least + 1):
        for scheme in (Blocks(height, width, size), Bands(height, width, size), Bands(height, width, size, rows=True)):
            images = scheme.table.reshape(-1, height, width)
            for side in range(1, least + 1):
                for y in range(height - side + 1):
                    for x in range(width - side + 1):
                        met = images[:, y : y + side, x : x + side].any(axis=(1, 2))
                        assert scheme.patch_delta(side) == Fraction(int(met.sum()), len(met))
                met_all += scheme.patch_delta(side) == 1
    assert met_all


@pytest.mark.parametrize("side", [0, -1, 6, 1.5, None])
def test_a_patch_is_as_large_as_fits(side: Any) -> None:
    for scheme in (Blocks(5, 7, 2), Bands(5, 7, 2)):
        assert scheme.patch_delta(5) < 1
        with pytest.raises(InputError, match="side"):
            scheme.patch_delta(side)


@pytest.mark.parametrize(
    ("scheme", "words"),
    [
        (Lattice(28, 30, 28), "lattice, 28 x 30 pixels, 28 parts"),
        (Lattice(28, 28, 28, rounds=3), "lattice, 28 x 28 pixels, 28 parts, 3 rounds"),
        (Partition(12, 4, seed=2), "partition, 12 units, 4 parts, seed 2"),
        (Blocks(8, 8, 3), "blocks, 8 x 8 pixels, size 3"),
        (Bands(8, 8, 3), "bands, 8 x 8 pixels, size 3"),
        (Bands(8, 8, 3, rows=True), "bands, 8 x 8 pixels, size 3, rows"),
        (Uniform(784, 45), "uniform, 784 units"),
        (RandomValues(784, 0.1), "random-values, 784 units, 0.1 kappa, 256 values"),
    ],
    ids=str,
)
def test_a_scheme_in_words_leaves_out_defaults_and_keep(scheme: Scheme, words: str) -> None:
    assert scheme.describe() == words
