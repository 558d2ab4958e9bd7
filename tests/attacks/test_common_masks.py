"""The same answers as all copies give, from few of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from sparsecert.attacks import ABSTAINS, CommonMasks, Pointwise, SmoothedDefender
from sparsecert.bounds.prediction import predicted
from sparsecert.counts import Tally
from sparsecert.schemes import ATTACK
from sparsecert.smoothed import Smoothed

Digits = tuple[torch.Tensor, torch.Tensor]


def _by_all_copies(defender: CommonMasks, image: torch.Tensor) -> tuple[list[int], int]:
    """Votes and answer from every copy, one forward pass for all of them."""
    smoothed = defender.smoothed
    masks = smoothed.scheme.masks(defender.seed, [0], range(ATTACK, ATTACK + defender.n))[0]
    copies = smoothed.encoding(image[None].expand(len(masks), *image.shape), masks)
    with torch.no_grad():
        votes = torch.bincount(smoothed.model(copies).argmax(1), minlength=10).tolist()  # type: ignore[operator]
    answer = predicted(Tally(tuple(votes)), defender.level)
    return votes, ABSTAINS if answer is None else answer


def test_a_line_of_changes_is_answered_as_by_all_copies(trained: Path, digits: Digits) -> None:
    """Two lines side by side, some attempts taken up and some not, pixels changed and set back."""
    defender = CommonMasks(Smoothed.load(trained), n=400, seed=5)
    defender.smoothed.model.eval()  # type: ignore[union-attr]
    generator = torch.Generator().manual_seed(0)
    current = digits[0][:2].clone()
    slots = torch.tensor([7, 3])
    expected_cost = 400 * np.array([1.0, 1.0])
    for step in range(12):
        attempts = current.clone()
        if step:
            places = torch.randint(0, 8, (2, 1 + step % 3, 2), generator=generator)
            for row in range(2):
                for y, x in places[row].tolist():
                    attempts[row, 0, y, x] = float(torch.rand(1, generator=generator))
        said = defender.answers(attempts, slots)
        for row in range(2):
            votes, answer = _by_all_copies(defender, attempts[row])
            moved = np.abs(said.scores[row].numpy() * 400 - votes).sum() / 2
            assert moved <= 2  # the engine rounds otherwise
            assert int(said.labels[row]) == answer or moved
        if step == 0:
            assert said.evaluations.tolist() == expected_cost.tolist()
        else:
            assert (said.evaluations < 400).all()
        taken = torch.tensor([row for row in range(2) if (step + row) % 2])
        defender.went_on(taken.long())
        current[taken.long()] = attempts[taken.long()]


def test_one_pixel_costs_the_masks_that_retain_it(trained: Path, digits: Digits) -> None:
    defender = CommonMasks(Smoothed.load(trained), n=500)
    image, slot = digits[0][:1], torch.tensor([0])
    defender.answers(image, slot)
    changed = image.clone()
    changed[0, 0, 4, 5] = 1 - changed[0, 0, 4, 5]
    assert int(defender.answers(changed, slot).evaluations[0]) == int(defender.masks[:, 4 * 8 + 5].sum())
    assert int(defender.answers(image, slot).evaluations[0]) == 0
    assert int(defender.answers(image).evaluations[0]) == 500


def test_the_pointwise_attack_takes_a_fraction_of_the_evaluations(trained: Path, digits: Digits) -> None:
    """10 of 64 pixels are retained, so that a step costs 15.6% of the copies; to about the same distances."""
    smoothed, (images, labels) = Smoothed.load(trained), digits
    right = smoothed.predict(images[:12], n=2_000).labels == labels[:12].numpy()
    images, labels = images[:12][right], labels[:12][right]
    common = Pointwise(restarts=2, rounds=0)(CommonMasks(smoothed, n=1_000), images, labels)
    fresh = Pointwise(restarts=2, rounds=0)(SmoothedDefender(smoothed, n=1_000), images, labels)
    assert common.succeeded.all()
    share = (common.evaluations / common.queries).mean() / 1_000
    assert share < 0.3
    assert common.median == pytest.approx(fresh.median, abs=3)
