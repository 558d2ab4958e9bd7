"""Masks: exactly keep retained, uniform, and a pure function of (seed, example, draw)."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations, product
from math import comb

import numpy as np
import pytest
import torch
from scipy.stats import binom, chisquare

from sparsecert.errors import InputError
from sparsecert.schemes import ESTIMATION, PREDICTION, SELECTION, TRAINING, Scheme, Uniform
from sparsecert.schemes.philox import philox
from sparsecert.schemes.subsets import floyd, scale_words
from tests.contracts import ALL_SCHEMES, SCHEMES
from tests.helpers import ONCE_IN_A_MILLION


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_every_mask_retains_exactly_keep_units(scheme: Uniform) -> None:
    masks = scheme.masks(3, range(4), range(200))
    assert masks.shape == (4, 200, scheme.units)
    assert masks.dtype == torch.bool
    assert (masks.sum(dim=2) == scheme.keep).all()


@pytest.mark.parametrize("scheme", ALL_SCHEMES, ids=str)
def test_the_largest_mask_is_as_large_as_the_scheme_says(scheme: Scheme) -> None:
    if scheme.values is not None:
        assert scheme.retained == scheme.units  # nothing is ablated
    else:
        assert scheme.masks(3, range(4), range(200)).sum(dim=2).max() == scheme.retained


@pytest.mark.parametrize("scheme", ALL_SCHEMES, ids=str)
def test_a_mask_depends_on_seed_example_and_draw_alone(scheme: Scheme) -> None:
    whole = scheme.masks(11, range(6), range(50))
    assert torch.equal(whole[3, 17], scheme.masks(11, [3], [17])[0, 0])
    assert torch.equal(whole[2:5, 10:30], scheme.masks(11, torch.tensor([2, 3, 4]), range(10, 30)))
    assert torch.equal(whole.flip(1)[4], scheme.masks(11, [4], list(range(49, -1, -1)))[0])
    assert torch.equal(whole[:2, :7], scheme.masks(11, 2, 7))


def test_seeds_examples_draws_and_purposes_give_different_masks() -> None:
    scheme = Uniform(64, 12)
    base = scheme.masks(0, range(8), range(8))
    others = [
        scheme.masks(1, range(8), range(8)),
        scheme.masks(1 << 40, range(8), range(8)),
        scheme.masks(0, range(8, 16), range(8)),
        *(scheme.masks(0, range(8), range(p, p + 8)) for p in (ESTIMATION, PREDICTION, TRAINING)),
    ]
    assert SELECTION == 0
    for other in others:
        assert (base != other).any(dim=2).all()
    assert len({tuple(mask.tolist()) for mask in base.flatten(0, 1)}) == 64


@pytest.mark.parametrize(("units", "keep"), [(6, 2), (6, 3), (6, 4), (7, 1), (5, 4)])
def test_all_subsets_are_equally_likely(units: int, keep: int) -> None:
    masks = Uniform(units, keep).masks(5, range(20), range(3_000)).flatten(0, 1)
    seen = Counter(tuple(mask.nonzero().flatten().tolist()) for mask in masks)
    counts = [seen[subset] for subset in combinations(range(units), keep)]
    assert sum(counts) == len(masks)
    assert chisquare(counts).pvalue > ONCE_IN_A_MILLION


@pytest.mark.parametrize(("units", "keep"), [(64, 12), (784, 45), (50, 40)])
def test_units_and_pairs_of_units_are_retained_as_often_as_they_should_be(units: int, keep: int) -> None:
    """Each count is binomial; the smallest of the exact p-values, times how many there are, is a valid p-value."""
    n = 40_000
    masks = Uniform(units, keep).masks(9, 1, n)[0].float()
    together = (masks.T @ masks).long()  # exact: counts below 2**24
    alone = together.diagonal()
    pairs = together[torch.triu(torch.ones(units, units, dtype=torch.bool), diagonal=1)]
    for counts, p in ((alone, keep / units), (pairs, keep * (keep - 1) / (units * (units - 1)))):
        lowest, highest = binom.cdf(counts.min().item(), n, p), binom.sf(counts.max().item() - 1, n, p)
        assert 2 * min(lowest, highest) * len(counts) > ONCE_IN_A_MILLION


@pytest.mark.parametrize(("units", "keep"), [(6, 3), (8, 5), (12, 4)])
def test_pairs_of_units_by_chi_square(units: int, keep: int) -> None:
    """One pair from each mask, its place among the retained units rotating with the draw: every pair equally likely."""
    places = torch.combinations(torch.arange(keep))
    n = 6_000 * len(places)
    retained = Uniform(units, keep).masks(2, 1, n)[0].nonzero()[:, 1].view(n, keep)
    chosen = retained.gather(1, places.repeat(n // len(places), 1))
    counts = torch.bincount(chosen[:, 0] * units + chosen[:, 1], minlength=units * units).view(units, units)
    assert chisquare(counts[torch.triu_indices(units, units, offset=1).unbind()].numpy()).pvalue > ONCE_IN_A_MILLION


@pytest.mark.parametrize(("units", "size"), [(u, s) for u in range(1, 7) for s in range(1, u + 1)])
def test_floyd_reaches_every_subset_equally_often(units: int, size: int) -> None:
    """All sequences of choices, enumerated: each subset comes from exactly size! of them."""
    choices = torch.tensor(list(product(*(range(units - size + i + 1) for i in range(size)))))
    seen = Counter(tuple(row.nonzero().flatten().tolist()) for row in floyd(choices, units))
    assert len(seen) == comb(units, size)
    assert set(seen.values()) == {len(choices) // comb(units, size)}


def test_scaled_is_the_exact_product_of_64_bit_words() -> None:
    words = [0, 1, (1 << 32) - 1, 1 << 32, (1 << 63) + 12345, (1 << 64) - 1, 0x0123456789ABCDEF]
    for word, size in product(words, [1, 2, 3, 784, 150_528, (1 << 31) - 1]):
        high, low = torch.tensor(word >> 32), torch.tensor(word & 0xFFFFFFFF)
        assert scale_words(high, low, torch.tensor(size)).item() == word * size >> 64


def test_nonuniformity_bounds_the_steps_added_up() -> None:
    """Against the distance computed from the definition, with words of few bits so that it can be enumerated."""
    units, size, bits = 7, 3, 6
    total = Fraction(0)
    for values in range(units - size + 1, units + 1):
        counts = Counter((word * values) >> bits for word in range(1 << bits))
        total += sum(abs(Fraction(counts[v], 1 << bits) - Fraction(1, values)) for v in range(values)) / 2
    stated = Uniform(units, size).nonuniformity * (1 << 64) / (1 << bits)
    assert 0 < total <= stated
    assert Uniform(784, 45).nonuniformity < Fraction(1, 10**14)
    assert Uniform(9, 9).nonuniformity == 0
    assert Uniform(7, 4).nonuniformity == Uniform(7, 3).nonuniformity > 0  # the ablated units are drawn


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_known_answers(
    counter: tuple[int, ...], key: tuple[int, int], expected: tuple[int, ...]
) -> None:
    """Known-answer vectors of philox4x32-10 from the authors' Random123 library."""
    words = philox(key, [torch.tensor([word]) for word in counter])
    assert tuple(word.item() for word in words) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1, [0], [0]), "seed must be a whole number between"),
        ((1 << 64, [0], [0]), "seed must be a whole number between"),
        ((0, [-1], [0]), "examples must be between 0"),
        ((0, [1 << 32], [0]), "examples must be between 0"),
        ((0, [0], [0.5]), "draws must be a flat sequence of whole numbers"),
        ((0, [[0]], [0]), "examples must be a flat sequence"),
        ((0, "abc", [0]), "examples must be"),
        ((0, True, [0]), "examples must be a whole number"),
    ],
)
def test_numbers_that_cannot_be_are_refused(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Uniform(8, 2).masks(*arguments)  # type: ignore[arg-type]


def test_numbers_may_be_arrays() -> None:
    scheme = Uniform(8, 2)
    assert torch.equal(scheme.masks(0, np.array([1, 2]), np.array([3])), scheme.masks(0, [1, 2], [3]))
    assert torch.equal(scheme.masks(0, np.int64(2), np.int64(3)), scheme.masks(0, 2, 3))
    assert scheme.masks(0, [], 4).shape == (0, 4, 8)
