"""One answer that must not appear, one that must not vanish: every change of tiny inputs, and how often bounds hold."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from math import comb

import numpy as np
import pytest
import torch

from sparsecert import Sequential, Smoothed
from sparsecert.bounds import corrected_alpha
from sparsecert.certificates import CERTIFICATES
from sparsecert.certificates.certificate import farthest_rho, largest_rho
from sparsecert.certificates.target import certify_averted, certify_flagged
from sparsecert.counts import Tally
from sparsecert.errors import InputError
from sparsecert.schemes import Uniform
from tests.certificates.test_top_k import CLASSES, _answers

Input = tuple[int, ...]


def _shares(units: int, keep: int, seed: int) -> dict[Input, list[Fraction]]:
    """For every input of zeros and ones the exact probability of each class."""
    answers, masks = _answers(units, keep, seed), list(combinations(range(units), keep))
    shares = {}
    for x in product((0, 1), repeat=units):
        votes = [answers[places, tuple(x[place] for place in places)] for places in masks]
        shares[x] = [Fraction(votes.count(label), len(masks)) for label in range(CLASSES)]
    return shares


def _near(x: Input, shares: dict[Input, list[Fraction]], radius: int | None) -> list[list[Fraction]]:
    """The shares at every input so near."""
    return [] if radius is None else [
        found for other, found in shares.items() if sum(a != b for a, b in zip(x, other, strict=True)) <= radius
    ]  # fmt: skip


@pytest.mark.parametrize(("units", "keep"), [(6, 1), (7, 1), (6, 2)])
def test_no_change_within_the_radius_brings_the_target_or_silences_the_flag(units: int, keep: int) -> None:
    """From tallies so large that the bounds are the shares, nearly; each radius against every input within it."""
    scheme, large, seen = Uniform(units, keep), 10**5 * comb(units, keep), set()
    for seed in range(6):
        shares = _shares(units, keep, seed)
        for x, own in list(shares.items())[:: 1 + seed]:
            tally = Tally(tuple(int(share * large) for share in own))
            for target in range(CLASSES):
                averted = certify_averted(tally, tally, scheme, 0.05, target)
                assert averted.label != target
                for near in _near(x, shares, averted.radius):
                    assert near[target] < near[averted.label]
                seen.add(averted.radius)
                for threshold in (Fraction(0), Fraction(1, 4), Fraction(1, 2)):
                    flagged = certify_flagged(tally, scheme, 0.05, target, threshold)
                    for near in _near(x, shares, flagged.radius):
                        assert near[target] > threshold
                    seen.add(flagged.radius)
    assert {None, 0, 1} <= seen


def test_the_radius_of_a_flag_is_the_first_delta_that_reaches_the_margin() -> None:
    """By the definition, at every radius; beyond a delta of 1/2 too."""
    scheme, beyond = Uniform(30, 4), 0
    for votes in range(0, 1_001, 50):
        for threshold in (Fraction(0), Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)):
            found = certify_flagged(Tally((votes, 1_000 - votes)), scheme, 0.05, 0, threshold)
            level = corrected_alpha(0.05, scheme, 1_000)
            margin = Fraction(
                CERTIFICATES["one-sided"].bound(Tally((1, 0)), Tally((votes, 1_000 - votes)), level).p_lower
            )
            fits = [rho for rho in range(31) if scheme.delta(rho) < margin - threshold]
            assert found.radius == (max(fits) if fits else None)
            beyond += found.radius is not None and scheme.delta(found.radius) > Fraction(1, 2)
    assert beyond > 0


def test_the_farthest_rho_is_the_largest_where_both_look() -> None:
    scheme = Uniform(50, 5)
    for margin in (Fraction(n, 97) for n in range(-3, 49)):
        assert farthest_rho(scheme, margin) == largest_rho(scheme, margin)
    assert farthest_rho(scheme, Fraction(2)) == 50


@pytest.mark.parametrize("shares", [(0.4, 0.35, 0.25), (0.34, 0.33, 0.33), (0.6, 0.4), (0.52, 0.48)])
def test_it_is_wrong_at_most_as_often_as_alpha_allows(shares: tuple[float, ...]) -> None:
    """Against the radii of the true shares; and wrong now and then, else the test could not have seen too much."""
    random, scheme, alpha, runs = np.random.default_rng(3), Uniform(200, 3), 0.1, 1_500
    true = [Fraction(str(share)) for share in shares]
    wrong = np.zeros(2, dtype=int)
    for _ in range(runs):
        selection, estimation = (Tally(tuple(random.multinomial(n, shares).tolist())) for n in (50, 300))
        averted = certify_averted(selection, estimation, scheme, alpha, target=1)
        flagged = certify_flagged(estimation, scheme, alpha, 0, Fraction(1, 4))
        best = largest_rho(scheme, (true[averted.label] - true[1]) / 2), farthest_rho(scheme, true[0] - Fraction(1, 4))
        for place, (found, most) in enumerate(zip((averted.radius, flagged.radius), best, strict=True)):
            wrong[place] += (-1 if found is None else found) > (-1 if most is None else most)
    assert (wrong <= alpha * runs).all()
    assert wrong[1] > 0.2 * alpha * runs


def test_a_known_rival_gives_at_least_corollary_2s_radius() -> None:
    """The target's own votes are at most the strongest rival's."""
    random, scheme, more = np.random.default_rng(0), Uniform(784, 45), 0
    for _ in range(40):
        selection, estimation = (Tally(tuple(random.multinomial(n, [0.6, 0.25, 0.15]).tolist())) for n in (100, 2_000))
        for target in (1, 2):
            both = CERTIFICATES["two-sided"].certify(selection, estimation, scheme, 0.05).radius
            averted = certify_averted(selection, estimation, scheme, 0.05, target)
            assert averted.label == 0
            assert (averted.radius or 0) >= (both or 0)
            more += (averted.radius or 0) > (both or 0)
    assert more > 0


def test_two_classes_spend_all_of_alpha_on_one_bound() -> None:
    selection, estimation, scheme = Tally((90, 10)), Tally((1_800, 150), invalid=50), Uniform(784, 45)
    one_sided = CERTIFICATES["one-sided"].certify(selection, estimation, scheme, 0.05)
    assert certify_averted(selection, estimation, scheme, 0.05, 1).radius == one_sided.radius
    assert certify_averted(selection, estimation, scheme, 0.05, 0).radius is None


def test_invalid_votes_count_for_the_target_and_not_for_the_flag() -> None:
    selection, scheme = Tally((90, 5, 5)), Uniform(784, 5)
    clean, spoilt = Tally((1_800, 100, 100)), Tally((1_800, 100, 0), invalid=100)
    meant = Tally((1_800, 200, 0))
    averted = [certify_averted(selection, tally, scheme, 0.05, 1).radius for tally in (clean, spoilt, meant)]
    assert averted[0] > averted[1] == averted[2]  # type: ignore[operator]
    assert certify_flagged(spoilt, scheme, 0.05, 0) == certify_flagged(clean, scheme, 0.05, 0)


def test_certifications_answer_from_the_votes_they_have() -> None:
    """Each with what the function says of the same votes; votes taken sequentially are refused."""
    smoothed = Smoothed(lambda copies: copies[:, :3, 0], Uniform(4, 2), classes=3)
    images = torch.rand(5, 3, 4, generator=torch.Generator().manual_seed(0))
    found = smoothed.certify(images, n0=100, n=500, alpha=0.1)
    for row in range(5):
        votes = found.selection[row], found.estimation[row], smoothed.scheme, 0.1
        assert found.averted(2)[row] == certify_averted(*votes, 2)
        assert found.flagged(1, 0.25)[row] == certify_flagged(*votes[1:], 1, 0.25)
        assert found.top(1)[row].radius == found[row].radius
        assert found.top(2, [1] * 5)[row].label == 1
        assert found.top(3)[row].radius == 4
    with pytest.raises(InputError, match="one for each of the 5 inputs"):
        found.top(2, [1])
    sequential = smoothed.certify(images, alpha=0.1, procedure=Sequential(n0=100, max_samples=600))
    with pytest.raises(InputError, match="fixed number"):
        sequential.averted(2)


def test_what_cannot_be_asked_is_refused() -> None:
    tally, scheme = Tally((5, 3, 2)), Uniform(10, 2)
    for target in (-1, 3):
        with pytest.raises(InputError, match="target"):
            certify_averted(tally, tally, scheme, 0.05, target)
        with pytest.raises(InputError, match="label"):
            certify_flagged(tally, scheme, 0.05, target)
    for threshold in (-0.1, 1.0, float("nan")):
        with pytest.raises(InputError, match="threshold"):
            certify_flagged(tally, scheme, 0.05, 0, threshold)
    with pytest.raises(InputError, match="one class"):
        certify_averted(Tally((5,)), Tally((5,)), scheme, 0.05, 0)
