"""The same answers as all copies give, from few of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from sparsecert.attacks import ABSTAINS, Pointwise, SmoothedDefender, SurrogateDefender
from sparsecert.bounds import corrected_alpha, predicted
from sparsecert.counts import Tally
from sparsecert.errors import InputError
from sparsecert.schemes import ATTACK
from sparsecert.smoothed import Smoothed
from tests.attacks.means import nearest_mean
from tests.helpers import Digits


def _by_all_copies(defender: SurrogateDefender, image: torch.Tensor) -> tuple[list[int], int]:
    """Votes and answer from every copy, one forward pass for all of them."""
    smoothed = defender.smoothed
    masks = smoothed.scheme.masks(defender.seed, [0], range(ATTACK, ATTACK + defender.n))[0]
    copies = smoothed.encoding(image[None].expand(len(masks), *image.shape), masks)
    with torch.no_grad():
        votes = torch.bincount(smoothed.model(copies).argmax(1), minlength=10).tolist()  # type: ignore[operator]
    answer = predicted(Tally(tuple(votes)), corrected_alpha(defender.alpha, smoothed.scheme, defender.n))
    return votes, ABSTAINS if answer is None else answer


def test_a_search_is_answered_as_by_all_copies(trained: Path, digits: Digits) -> None:
    """Two searches in parallel, some attempts accepted and some not, pixels changed and reverted."""
    defender = SurrogateDefender(Smoothed.load(trained, precision="fp32"), n=400, seed=5, tie=False)
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
        defender.accept(taken.long())
        current[taken.long()] = attempts[taken.long()]


def test_what_was_left_open_is_made_up_for(trained: Path, digits: Digits) -> None:
    """Steps decided by some copies leave others out of date; all copies, asked for later, are as if none were."""
    defender = SurrogateDefender(Smoothed.load(trained, precision="fp32"), n=640, seed=5, error=0.2, tie=False)
    generator = torch.Generator().manual_seed(1)
    current, labels, slots = digits[0][:3].clone(), digits[1][:3], torch.arange(3)
    spent = 0
    for step in range(30):
        attempts = current.clone()
        for row in range(3):
            y, x = torch.randint(0, 8, (2,), generator=generator).tolist()
            attempts[row, 0, y, x] = float(torch.rand(1, generator=generator))
        spent += int(defender.answers(attempts, slots, labels).evaluations.sum())
        taken = torch.tensor([row for row in range(3) if (step + row) % 3])
        defender.accept(taken)
        current[taken] = attempts[taken]
        if step % 10 == 9:
            said = defender.answers(current, slots)
            for row in range(3):
                votes, answer = _by_all_copies(defender, current[row])
                moved = np.abs(said.scores[row].numpy() * 640 - votes).sum() / 2
                assert moved <= 2  # the engine rounds otherwise
                assert int(said.labels[row]) == answer or moved
    assert spent < 0.1 * 30 * 3 * 640


def test_without_error_the_answer_to_one_label_is_that_of_all_copies(trained: Path, digits: Digits) -> None:
    exact = SurrogateDefender(Smoothed.load(trained), n=400, error=0, tie=False)
    images, labels = digits[0][:20], digits[1][:20]
    full = exact.answers(images)
    asked = exact.answers(images, against=labels)
    assert torch.equal(asked.labels == labels, full.labels == labels)
    assert (asked.evaluations == 400).all()


def test_a_search_aims_at_a_tie(trained: Path, digits: Digits) -> None:
    """Asked about one label, or within searches: whether it has more votes than any other."""
    defender, (images, labels) = SurrogateDefender(Smoothed.load(trained), n=400, error=0), digits
    noisy = (images + 0.7 * torch.rand(images.shape, generator=torch.Generator().manual_seed(0))).clamp(0, 1)
    said = defender.answers(noisy, against=labels)
    votes = (said.scores * 400).round().long()
    own = votes.gather(1, labels[:, None])[:, 0]
    leads = own > votes.scatter(1, labels[:, None], -1).amax(dim=1)
    assert 0 < leads.sum() < len(labels)
    assert torch.equal(said.labels == labels, leads)
    in_search = defender.answers(noisy, torch.arange(len(noisy)))
    assert torch.equal(in_search.labels == labels, leads)
    assert ((in_search.labels == ABSTAINS) <= (votes.sort(dim=1).values[:, -2:].diff(dim=1)[:, 0] == 0)).all()
    assert (defender.answers(noisy).labels == ABSTAINS).sum() > (in_search.labels == ABSTAINS).sum()


def test_few_copies_settle_what_is_clear(trained: Path, digits: Digits) -> None:
    """And say the same of nearly all images."""
    quick, images, labels = SurrogateDefender(Smoothed.load(trained), n=1_600, tie=False), *digits
    full, asked = quick.answers(images), quick.answers(images, against=labels)
    assert ((asked.labels == labels) == (full.labels == labels)).sum() >= 19
    assert asked.evaluations.float().mean() < 800
    assert set(asked.evaluations.tolist()) <= {7, 25, 100, 200, 400, 800, 1_600}


def test_only_a_failure_is_settled_by_fewer_than_a_sixteenth(trained: Path, digits: Digits) -> None:
    """An attack goes on from where it succeeded, so that with few copies it would find what suits these."""
    quick, images, labels = SurrogateDefender(Smoothed.load(trained), n=1_600), *digits
    for against in (labels, (labels + 1) % 10):  # answered, and seldom
        asked = quick.answers(images, against=against)
        answered = asked.labels == against
        assert (asked.evaluations[~answered] >= 100).all()
    assert not answered.all()
    right = quick.answers(images, against=labels)
    assert (right.evaluations[right.labels == labels] < 100).any()


def test_two_images_in_one_slot_are_refused(trained: Path, digits: Digits) -> None:
    with pytest.raises(ValueError, match="same slot"):
        SurrogateDefender(Smoothed.load(trained), n=100).answers(digits[0][:2], torch.tensor([1, 1]))
    with pytest.raises(InputError, match="error must be"):
        SurrogateDefender(Smoothed.load(trained), n=100, error=0.5)


def test_one_pixel_costs_the_masks_that_retain_it(trained: Path, digits: Digits) -> None:
    defender = SurrogateDefender(Smoothed.load(trained), n=500)
    image, slot = digits[0][:1], torch.tensor([0])
    defender.answers(image, slot)
    changed = image.clone()
    changed[0, 0, 4, 5] = 1 - changed[0, 0, 4, 5]
    assert int(defender.answers(changed, slot).evaluations[0]) == int(defender.masks[:, 4 * 8 + 5].sum())
    assert int(defender.answers(image, slot).evaluations[0]) == 0
    assert int(defender.answers(image).evaluations[0]) == 500


def test_the_pointwise_attack_takes_a_fraction_of_the_evaluations(digits: Digits) -> None:
    """16 of 64 pixels are retained, so a step costs about a quarter of the copies; to about the same distances."""
    smoothed, (images, labels) = nearest_mean(), digits
    right = smoothed.predict(images, n=2_000).labels == labels.numpy()
    images, labels = images[right][:5], labels[right][:5]
    common = Pointwise(restarts=1, rounds=1)(SurrogateDefender(smoothed, n=300), images, labels)
    fresh = Pointwise(restarts=1, rounds=1)(SmoothedDefender(smoothed, n=300), images, labels)
    assert common.succeeded.all()
    share = (common.evaluations / common.queries).mean() / 300
    assert share < 0.3
    assert common.median == pytest.approx(fresh.median, abs=3)
