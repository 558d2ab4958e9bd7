"""A class among the k leading ones: every change of tiny inputs, and how often the bounds hold."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from sparsecert.bounds import Interval, corrected_alpha, two_sided
from sparsecert.certificates import corollary_2
from sparsecert.certificates.top_k import Rivals, certify_top_k, top_k_radius
from sparsecert.counts import Tally
from sparsecert.errors import InputError
from sparsecert.schemes import Uniform

CLASSES = 5


def _answers(units: int, keep: int, seed: int) -> dict[tuple[tuple[int, ...], tuple[int, ...]], int]:
    """A base classifier at random: a class for every set of retained units and what they show."""
    random = np.random.default_rng(seed)
    usual = random.integers(CLASSES, size=3)
    return {
        (places, shown): int(random.choice(usual) if random.random() < 0.8 else random.integers(CLASSES))
        for places in combinations(range(units), keep)
        for shown in product((0, 1), repeat=keep)
    }


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize(("units", "keep"), [(5, 1), (5, 2), (6, 2)])
def test_no_change_within_the_radius_lets_k_others_catch_up(units: int, keep: int, k: int) -> None:
    """All inputs of zeros and ones; probabilities are exact, both ways to bound the rivals are used."""
    radii = set()
    for seed in range(8):
        answers = _answers(units, keep, seed)
        masks = list(combinations(range(units), keep))
        inputs = list(product((0, 1), repeat=units))
        shares = {}
        for x in inputs:
            votes = [answers[places, tuple(x[place] for place in places)] for places in masks]
            shares[x] = [Fraction(votes.count(label), len(masks)) for label in range(CLASSES)]
        for x, label in product(inputs, range(CLASSES)):
            others = sorted((share for rival, share in enumerate(shares[x]) if rival != label), reverse=True)
            ways = [Rivals(k, sum(others[:k], Fraction(0))), Rivals(1, others[k - 1])]
            found = [top_k_radius(shares[x][label], way, Uniform(units, keep)) for way in ways]
            radius = max(-1 if one is None else one for one in found)
            radii.add(radius)
            for other in inputs:
                if sum(a != b for a, b in zip(x, other, strict=True)) <= radius:
                    level = sum(
                        share >= shares[other][label] for rival, share in enumerate(shares[other]) if rival != label
                    )
                    assert level < k
    assert max(radii) > 0 or keep > 1


def test_one_leading_class_is_corollary_2() -> None:
    random, scheme, alpha = np.random.default_rng(0), Uniform(100, 5), Fraction(1, 20)
    for _ in range(30):
        shares = random.dirichlet([3, 1, 1])
        selection, estimation = (Tally(tuple(random.multinomial(n, shares).tolist())) for n in (100, 500))
        expected = corollary_2(two_sided(selection, estimation, corrected_alpha(alpha, scheme, 500)), scheme)
        assert certify_top_k(selection, estimation, scheme, alpha, 1).radius == expected
    assert top_k_radius(0.9, Rivals(1, 0.1), scheme) == corollary_2(Interval(0, 0.9, 0.1), scheme)


def test_more_leading_classes_certify_more() -> None:
    selection, estimation = Tally((60, 25, 10, 3, 2)), Tally((600, 250, 100, 30, 20))
    radii = [certify_top_k(selection, estimation, Uniform(784, 45), 0.05, k).radius for k in range(1, 6)]
    assert radii == sorted(radii)  # type: ignore[type-var]
    assert radii[0] < radii[1] < radii[4] == 784  # type: ignore[operator]
    given = certify_top_k(selection, estimation, Uniform(784, 45), 0.05, 3, label=1)
    assert given.label == 1
    assert given.radius is not None
    assert certify_top_k(selection, estimation, Uniform(784, 45), 0.05, 1, label=1).radius is None


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize(
    "shares", [(0.3, 0.3, 0.3, 0.1), (0.4, 0.35, 0.2, 0.05), (0.26, 0.25, 0.25, 0.24), (0.5, 0.45, 0.03, 0.02)]
)
def test_it_is_wrong_at_most_as_often_as_alpha_allows(shares: tuple[float, ...], k: int) -> None:
    """The radius against that of the true shares, which Theorem 1 and the proof above give."""
    random, scheme, alpha = np.random.default_rng(1), Uniform(200, 3), 0.1
    wrong, runs = 0, 1_500
    for _ in range(runs):
        selection, estimation = (Tally(tuple(random.multinomial(n, shares).tolist())) for n in (50, 300))
        found = certify_top_k(selection, estimation, scheme, alpha, k)
        true = [Fraction(str(share)) for share in shares]
        others = sorted((share for rival, share in enumerate(true) if rival != found.label), reverse=True)
        ways = [Rivals(k, sum(others[:k], Fraction(0))), Rivals(1, others[k - 1])]
        best = max(-1 if one is None else one for one in (top_k_radius(true[found.label], way, scheme) for way in ways))
        wrong += (-1 if found.radius is None else found.radius) > best
    assert wrong <= alpha * runs


def test_invalid_votes_count_for_the_rivals() -> None:
    selection, scheme = Tally((90, 5, 5)), Uniform(784, 45)
    clean = certify_top_k(selection, Tally((900, 50, 50)), scheme, 0.05, 2).radius
    spoilt = certify_top_k(selection, Tally((900, 50, 10), invalid=40), scheme, 0.05, 2).radius
    assert clean is not None
    assert spoilt is not None
    assert spoilt <= clean


def test_what_cannot_be_asked_is_refused() -> None:
    for wrong in ({"k": 0}, {"k": 4}, {"k": 2, "label": 3}, {"k": 2, "label": -1}):
        with pytest.raises(InputError):
            certify_top_k(Tally((5, 3, 2)), Tally((5, 3, 2)), Uniform(10, 2), 0.05, **wrong)
    for label in range(3):
        assert certify_top_k(Tally((5, 3, 2)), Tally((5, 3, 2)), Uniform(10, 2), 0.05, 3, label).label == label
