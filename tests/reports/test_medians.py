from __future__ import annotations

import random

import pytest

from sparsecert.reports import certified_accuracy, median_certified_robustness


@pytest.mark.parametrize(
    ("robustness", "median"),
    [
        ([None, None, 1, 2, 3], 1),
        ([None, 1, 2, 3], 2),
        ([None, None, 1, 2], 1),  # exactly half reach 1
        ([None, None, 0, 0], 0),
        ([None, None, None, 5, 5], None),
        ([None, None], None),
        ([0], 0),
        ([4, 4, 4], 4),
        ([], None),
    ],
)
def test_median_counts_not_certified_as_below_everything(robustness: list[int | None], median: int | None) -> None:
    assert median_certified_robustness(robustness) == median


def test_certified_accuracy_by_hand() -> None:
    assert certified_accuracy([None, 0, 2, 2]) == (0.75, 0.5, 0.5)
    assert certified_accuracy([None, None]) == ()
    assert certified_accuracy([]) == ()


def test_both_follow_their_definitions_on_random_inputs() -> None:
    rng = random.Random(1)
    for _ in range(200):
        robustness = [rng.choice([None, None, *range(9)]) for _ in range(rng.randint(1, 12))]
        shares = [sum(r is not None and r >= rho for r in robustness) / len(robustness) for rho in range(12)]
        found = certified_accuracy(robustness)
        assert list(found) == shares[: len(found)]
        assert not any(shares[len(found) :])
        assert median_certified_robustness(robustness) == max(
            (rho for rho in range(12) if shares[rho] >= 0.5), default=None
        )
