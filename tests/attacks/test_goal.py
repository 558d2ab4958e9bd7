"""The goal to misclassify: abstentions are no success, and certificates hold against what is found."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sparsecert.attacks import (
    ABSTAINS,
    ANY,
    MISCLASSIFY,
    NOT_FOUND,
    Answers,
    Attack,
    Defender,
    Ensemble,
    Judge,
    SigmaZero,
    SmoothedDefender,
    SparsePGD,
    SurrogateDefender,
)
from sparsecert.attacks.defenders import leads, margins
from sparsecert.attacks.judge import changed_pixels
from sparsecert.errors import InputError
from sparsecert.smoothed import Smoothed
from tests.attacks.means import nearest_mean
from tests.attacks.test_judge import BLACK, ZERO, Brightening
from tests.helpers import Digits

QUICK = [SparsePGD(steps=15), SigmaZero(steps=15), Ensemble(steps=8, queries=20, rounds=1)]


class Hesitating(Defender):
    """Abstains from 3 bright pixels on, and answers 1 from 8 on."""

    def answers(
        self, images: torch.Tensor, slots: torch.Tensor | None = None, against: torch.Tensor | None = None
    ) -> Answers:
        bright = images.flatten(1).sum(dim=1)
        labels = torch.where(bright >= 8, 1, torch.where(bright >= 3, ABSTAINS, 0))
        return Answers(labels, torch.stack((8 - bright, bright), dim=1), torch.ones(len(images), dtype=torch.int64))


@pytest.mark.parametrize("final", [None, Hesitating()])
def test_an_abstention_counts_for_one_goal_and_not_for_the_other(final: Defender | None) -> None:
    for goal, distance, answer in ((ANY, 3, ABSTAINS), (MISCLASSIFY, 8, 1)):
        found = Brightening()(Hesitating(), BLACK, ZERO, final=final, goal=goal)
        assert found.distances.tolist() == [distance] * 3
        assert found.answers.tolist() == [answer] * 3
    with pytest.raises(InputError, match="goal must be one of any, misclassify, got 'abstain'"):
        Brightening()(Hesitating(), BLACK, ZERO, goal="abstain")


def test_an_abstention_on_the_original_is_no_right_answer_whatever_the_goal() -> None:
    dim = BLACK.clone()
    dim.flatten(1)[:, :4] = 1
    for goal in (ANY, MISCLASSIFY):
        found = Brightening()(Hesitating(), dim, ZERO, goal=goal)
        assert found.distances.tolist() == [0] * 3
        assert found.answers.tolist() == [ABSTAINS] * 3


def test_the_lead_of_the_strongest_rival_is_over_every_class() -> None:
    """Class 0 is the label: it leads, is second, or is behind two others."""
    scores = torch.tensor([[5.0, 3.0, 1.0], [3.0, 5.0, 1.0], [1.0, 5.0, 4.0]])
    assert leads(scores, torch.zeros(3, dtype=torch.int64)).tolist() == [-2, 2, 1]
    assert margins(scores, torch.zeros(3, dtype=torch.int64)).tolist() == [2, -2, -4]
    judge = Judge(Hesitating(), BLACK, ZERO, (0.0, 1.0), None, goal=MISCLASSIFY)
    assert judge.margins(scores, torch.arange(3)).tolist() == [2, -2, -1]


def test_the_surrogate_says_whether_another_class_is_answered(trained: Path, digits: Digits) -> None:
    """By all copies, or with early stopping by few of them and nearly always the same."""
    images, labels = digits
    noisy = (images + 0.9 * torch.rand(images.shape, generator=torch.Generator().manual_seed(0))).clamp(0, 1)
    smoothed = Smoothed.load(trained)
    everything = SurrogateDefender(smoothed, n=400, error=0, goal=MISCLASSIFY)
    full = everything.answers(noisy).labels
    wrong = (full != labels) & (full != ABSTAINS)
    assert 0 < wrong.sum() < len(labels)
    asked = everything.answers(noisy, against=labels)
    assert torch.equal((asked.labels != ABSTAINS) & (asked.labels != labels), wrong)
    assert torch.equal(asked.labels[wrong], full[wrong])
    assert torch.equal(everything.answers(noisy, torch.arange(len(noisy))).labels, full)  # in a search: no ties
    quick = SurrogateDefender(smoothed, n=1_600, goal=MISCLASSIFY)
    all_copies = quick.answers(noisy).labels
    early = quick.answers(noisy, against=labels)
    fooled = (early.labels != ABSTAINS) & (early.labels != labels)
    assert (fooled == ((all_copies != labels) & (all_copies != ABSTAINS))).sum() >= len(labels) - 1
    assert early.evaluations.float().mean() < 1_600
    assert (early.evaluations[fooled] >= 100).all()  # a success takes a sixteenth of the copies or more


@pytest.mark.parametrize("attack", QUICK, ids=str)
def test_nothing_certified_is_misclassified_within_its_radius(attack: Attack, digits: Digits) -> None:
    """The search goes as far as it must, or as far as the radius; what it finds is answered, and by another class."""
    smoothed, (images, labels) = nearest_mean(8), digits
    sure = smoothed.certify(images, n0=500, n=2_000, alpha=0.001)
    chosen = torch.from_numpy((sure.labels == labels.numpy()) & (sure.radii >= 1)).nonzero()[:4, 0]
    images, labels, radii = images[chosen], labels[chosen], torch.from_numpy(sure.radii)[chosen]
    assert len(chosen) == 4
    search, final = SurrogateDefender(smoothed, n=400, goal=MISCLASSIFY), SmoothedDefender(smoothed, n=400)
    found = attack(search, images, labels, final=final, goal=MISCLASSIFY)
    hit = found.succeeded
    assert hit.any()
    assert ((found.answers != labels) & (found.answers != ABSTAINS))[hit].all()
    assert torch.equal(changed_pixels(found.adversarial, images).sum(dim=1)[hit], found.distances[hit])
    assert (found.distances > radii)[hit].all()
    least = int(radii.min())
    within = attack(search, images, labels, final=final, goal=MISCLASSIFY, budget=least)
    assert within.distances.tolist() == [NOT_FOUND] * 4
