"""Soundness by brute force: on tiny inputs, every certified radius survives every change of that many units.

The probabilities are exact (all masks are enumerated), so a single surviving counter-example would refute the theorems
as implemented: scheme, encoding, corollaries and tables together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations, product
from math import comb

import pytest
import torch

from sparsecert.bounds import Interval
from sparsecert.certificates import corollary_1, corollary_2
from sparsecert.encodings import Encoding, MeanFill, NullChannels
from sparsecert.schemes import Uniform

Model = Callable[[torch.Tensor], torch.Tensor]

CLASSES = 3


def _linear(seed: int) -> Callable[[int, int], Model]:
    def make(channels: int, units: int) -> Model:
        weights = torch.randn(CLASSES, channels * units, generator=torch.Generator().manual_seed(seed))
        return lambda x: x.flatten(1) @ weights.T

    return make


def _network(channels: int, units: int) -> Model:
    generator = torch.Generator().manual_seed(5)
    first = torch.randn(16, channels * units, generator=generator)
    second = torch.randn(CLASSES, 16, generator=generator)
    return lambda x: torch.relu(x.flatten(1) @ first.T) @ second.T


def _parity(channels: int, units: int) -> Model:
    """As unstable as a model can be: every visible value flips the answer."""
    return lambda x: torch.nn.functional.one_hot((x.flatten(1) > 0.6).sum(dim=1) % CLASSES, CLASSES).float()


def _adversarial(channels: int, units: int) -> Model:
    """Class 0 until a 1 is visible anywhere, then class 1: at x = 0 it attains the bound of Theorem 1 exactly."""
    return lambda x: torch.stack(
        (torch.ones(len(x)), 2 * (x[:, :1].flatten(1) == 1).any(dim=1), torch.zeros(len(x))), dim=1
    )


MODELS = [_linear(0), _linear(1), _network, _parity, _adversarial]
ENCODINGS: list[Encoding] = [
    NullChannels(),
    NullChannels(mean=0.4, std=0.3),
    MeanFill(0.35),
    MeanFill(0.35, centred=True),
]


def _all_masks(scheme: Uniform) -> torch.Tensor:
    masks = torch.zeros(comb(scheme.units, scheme.keep), scheme.units)
    for row, retained in enumerate(combinations(range(scheme.units), scheme.keep)):
        masks[row, list(retained)] = 1
    return masks.bool()


def _probabilities(model: Model, encoding: Encoding, masks: torch.Tensor, inputs: torch.Tensor) -> list[list[Fraction]]:
    """p_i(x) for every input, exactly."""
    copies = encoding(inputs.repeat_interleave(len(masks), 0), masks.repeat(len(inputs), 1))
    votes = model(copies).argmax(dim=1).view(len(inputs), len(masks))
    counts = torch.nn.functional.one_hot(votes, CLASSES).sum(dim=1).tolist()
    return [[Fraction(count, len(masks)) for count in row] for row in counts]


def _changes(x: tuple[float, ...], rho: int, values: tuple[float, ...]) -> Iterator[tuple[float, ...]]:
    """Every input that differs from x in at most rho units."""
    for places in combinations(range(len(x)), rho):
        for new in product(values, repeat=rho):
            changed = list(x)
            for place, value in zip(places, new, strict=True):
                changed[place] = value
            yield tuple(changed)


@pytest.mark.parametrize("encoding", ENCODINGS, ids=repr)
@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__qualname__.split(".")[0])
@pytest.mark.parametrize(
    ("units", "keep", "values"), [(8, 1, (0.0, 1.0)), (8, 2, (0.0, 1.0)), (7, 3, (0.0, 1.0)), (5, 2, (0.0, 0.5, 1.0))]
)
def test_every_certified_radius_survives_every_change(
    encoding: Encoding, make: Callable[[int, int], Model], units: int, keep: int, values: tuple[float, ...]
) -> None:
    scheme = Uniform(units, keep)
    masks = _all_masks(scheme)
    model = make(encoding.channels(1), units)
    world = list(product(values, repeat=units))
    p = dict(zip(world, _probabilities(model, encoding, masks, torch.tensor(world)[:, None]), strict=True))
    certified = 0
    for x in world[:: max(1, len(world) // 40)]:
        label = max(range(CLASSES), key=lambda c: p[x][c])
        rival = max(p[x][c] for c in range(CLASSES) if c != label)
        one = corollary_1(Interval(label, p[x][label], 1 - p[x][label]), scheme)
        two = corollary_2(Interval(label, p[x][label], rival), scheme)
        assert (two if two is not None else -1) >= (one if one is not None else -1)
        if two is None:
            continue
        certified += 1
        for changed in _changes(x, two, values):
            shares = p[changed]
            assert all(shares[label] > shares[c] for c in range(CLASSES) if c != label), (x, changed, two)
    assert certified, "nothing was certified: the test would not have noticed an unsound certificate"


@pytest.mark.parametrize(("units", "keep"), [(8, 1), (8, 2), (8, 3), (6, 4)])
def test_the_adversarial_model_breaks_one_unit_beyond_its_radius(units: int, keep: int) -> None:
    """The certificate is not only sound but tight: some model at some input loses at radius + 1."""
    scheme = Uniform(units, keep)
    model, masks = _adversarial(2, units), _all_masks(scheme)
    world = [tuple([1.0] * ones + [0.0] * (units - ones)) for ones in range(units + 1)]
    p = _probabilities(model, NullChannels(), masks, torch.tensor(world)[:, None])
    assert p[0] == [1, 0, 0]
    radius = corollary_2(Interval(0, p[0][0], p[0][1]), scheme)
    assert radius is not None
    assert p[radius][0] > p[radius][1]
    assert p[radius + 1][0] <= p[radius + 1][1]
    for rho, shares in enumerate(p):
        assert 1 - shares[0] == scheme.delta(rho)


def test_theorem_1_holds_for_every_pair_of_inputs() -> None:
    scheme, encoding = Uniform(6, 2), NullChannels()
    masks, world = _all_masks(scheme), list(product((0.0, 1.0), repeat=6))
    for make in MODELS:
        p = _probabilities(make(2, 6), encoding, masks, torch.tensor(world)[:, None])
        for (x, before), (y, after) in combinations(zip(world, p, strict=True), 2):
            rho = sum(a != b for a, b in zip(x, y, strict=True))
            assert all(abs(a - b) <= scheme.delta(rho) for a, b in zip(before, after, strict=True))
